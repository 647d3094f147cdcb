import type { CreateEnvironment, Environment, UpdateEnvironment } from "../contract/environments.ts";
import { Conflict, InvalidRequest, NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import { patchMetadata } from "../contract/schema.ts";
import type { Transaction } from "../db/transaction.ts";

interface Row {
  id: string;
  name: string;
  description: string | null;
  scope: "organization" | "account" | null;
  metadata: string;
  created_at: Date;
  updated_at: Date;
  archived_at: Date | null;
}

const COLUMNS = "id, name, description, scope, metadata, created_at, updated_at, archived_at";

function toEnvironment(row: Row): Environment {
  return {
    id: row.id,
    type: "environment",
    name: row.name,
    description: row.description,
    config: { type: "self_hosted" },
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    ...(row.scope === null ? {} : { scope: row.scope }),
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    archived_at: row.archived_at?.toISOString() ?? null,
  };
}

export interface EnvironmentRef {
  readonly workspaceId: string;
  readonly environmentId: string;
}

function found(rows: readonly Row[], ref: EnvironmentRef): Environment {
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no environment ${ref.environmentId}.`, {
      details: { error_code: "environment_not_found" },
    });
  }
  return toEnvironment(row);
}

export async function createEnvironment(
  database: Transaction,
  workspaceId: string,
  body: CreateEnvironment,
  environmentId = newId("env"),
): Promise<Environment> {
  const { rows } = await database.query<Row>(
    `insert into environments (id, workspace_id, name, description, config, metadata, scope, created_at, updated_at)
     select $1, $2, $3, $4, $5, $6, $7, instant, instant from (select date_trunc('milliseconds', clock_timestamp()) as instant) clock
     returning ${COLUMNS}`,
    [
      environmentId,
      workspaceId,
      body.name,
      body.description ?? null,
      JSON.stringify({ type: "self_hosted" }),
      JSON.stringify(body.metadata ?? {}),
      body.scope ?? null,
    ],
  );
  return found(rows, { workspaceId, environmentId });
}

/** A foreign id is not found. */
export async function getEnvironment(database: Transaction, ref: EnvironmentRef): Promise<Environment> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from environments where id = $1 and workspace_id = $2`,
    [ref.environmentId, ref.workspaceId],
  );
  return found(rows, ref);
}

/** Changes what may change; the kind of an environment may not. An archived one is read-only. */
export async function updateEnvironment(
  transaction: Transaction,
  ref: EnvironmentRef,
  change: UpdateEnvironment,
): Promise<Environment> {
  const current = await lockEnvironment(transaction, ref);
  if (current.archived_at !== null) {
    throw new InvalidRequest(`Environment ${ref.environmentId} is archived; it cannot be changed.`, {
      details: { error_code: "environment_archived" },
    });
  }
  if (change.config != null && change.config.type !== current.config.type) {
    throw new InvalidRequest("config.type: the kind of an environment cannot be changed.", {
      details: { error_code: "invalid_config_type_change" },
    });
  }
  const patch = Object.fromEntries(
    Object.entries(change.metadata ?? {}).map(([key, value]) => [key, value === "" ? null : value]),
  );
  const { rows } = await transaction.query<Row>(
    `update environments set name = $3, description = $4, metadata = $5, scope = $6, updated_at = date_trunc('milliseconds', clock_timestamp())
      where id = $1 and workspace_id = $2 returning ${COLUMNS}`,
    [
      ref.environmentId,
      ref.workspaceId,
      change.name ?? current.name,
      change.description === undefined ? current.description : change.description,
      JSON.stringify(patchMetadata(current.metadata, patch)),
      change.scope === undefined ? (current.scope ?? null) : change.scope,
    ],
  );
  return found(rows, ref);
}

/** No new session can use it; existing ones go on. Archiving again changes nothing. */
export async function archiveEnvironment(database: Transaction, ref: EnvironmentRef): Promise<Environment> {
  const { rows } = await database.query<Row>(
    `update environments set archived_at = coalesce(archived_at, date_trunc('milliseconds', clock_timestamp()))
      where id = $1 and workspace_id = $2 returning ${COLUMNS}`,
    [ref.environmentId, ref.workspaceId],
  );
  return found(rows, ref);
}

/** Deletes an environment that no session refers to, with its keys. */
export async function deleteEnvironment(transaction: Transaction, ref: EnvironmentRef): Promise<void> {
  await lockEnvironment(transaction, ref);
  const { rowCount } = await transaction.query(
    "select 1 from sessions where environment_id = $1 and deleting_at is null limit 1",
    [ref.environmentId],
  );
  if (rowCount !== 0) {
    throw new Conflict(`Environment ${ref.environmentId} is used by sessions; archive it, or delete them first.`);
  }
  await transaction.query("delete from work_items where environment_id = $1", [ref.environmentId]);
  await transaction.query("delete from environment_keys where environment_id = $1", [ref.environmentId]);
  await transaction.query("delete from environments where id = $1 and workspace_id = $2", [
    ref.environmentId,
    ref.workspaceId,
  ]);
}

/** The row lock also holds off a session that is being created with it: its foreign key waits here. */
async function lockEnvironment(transaction: Transaction, ref: EnvironmentRef): Promise<Environment> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from environments where id = $1 and workspace_id = $2 for update`,
    [ref.environmentId, ref.workspaceId],
  );
  return found(rows, ref);
}

/** A page of environments, newest first. */
export async function listEnvironments(
  database: Transaction,
  page: {
    readonly workspaceId: string;
    readonly includeArchived: boolean;
    readonly after: { readonly createdAt: Date; readonly id: string } | null;
    readonly limit: number;
  },
): Promise<Environment[]> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from environments
      where workspace_id = $1 and ($2 or archived_at is null) and ($3::timestamptz is null or (created_at, id) < ($3, $4))
      order by created_at desc, id desc limit $5`,
    [page.workspaceId, page.includeArchived, page.after?.createdAt ?? null, page.after?.id ?? null, page.limit],
  );
  return rows.map(toEnvironment);
}
