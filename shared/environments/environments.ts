import type { CreateEnvironment, Environment } from "../contract/environments.ts";
import { NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";

interface Row {
  id: string;
  name: string;
  description: string | null;
  metadata: string;
  created_at: Date;
  updated_at: Date;
  archived_at: Date | null;
}

const COLUMNS = "id, name, description, metadata, created_at, updated_at, archived_at";

function toEnvironment(row: Row): Environment {
  return {
    id: row.id,
    type: "environment",
    name: row.name,
    description: row.description,
    config: { type: "self_hosted" },
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    archived_at: row.archived_at?.toISOString() ?? null,
  };
}

export async function createEnvironment(
  database: Transaction,
  workspaceId: string,
  body: CreateEnvironment,
  id = newId("env"),
): Promise<Environment> {
  const { rows } = await database.query<Row>(
    `insert into environments (id, workspace_id, name, description, config, metadata, created_at, updated_at)
     select $1, $2, $3, $4, $5, $6, instant, instant from (select date_trunc('milliseconds', now()) as instant) clock
     returning ${COLUMNS}`,
    [
      id,
      workspaceId,
      body.name,
      body.description ?? null,
      JSON.stringify({ type: "self_hosted" }),
      JSON.stringify(body.metadata ?? {}),
    ],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new Error("The environment was not inserted.");
  }
  return toEnvironment(row);
}

/** A foreign id is not found. */
export async function getEnvironment(
  database: Transaction,
  params: { readonly workspaceId: string; readonly environmentId: string },
): Promise<Environment> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from environments where id = $1 and workspace_id = $2`,
    [params.environmentId, params.workspaceId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no environment ${params.environmentId}.`);
  }
  return toEnvironment(row);
}
