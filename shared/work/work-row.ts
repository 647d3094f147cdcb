import { NotFound } from "../contract/errors.ts";
import { patchMetadata } from "../contract/schema.ts";
import type { Work, WorkState } from "../contract/work.ts";
import type { Transaction } from "../db/transaction.ts";

/** Which item of which environment; environments belong to one workspace, so the pair is the tenant boundary. */
export interface WorkRef {
  readonly workspaceId: string;
  readonly environmentId: string;
  readonly workId: string;
}

/** A work item as the server keeps it. */
export interface WorkRow {
  readonly id: string;
  readonly environment_id: string;
  /** Null for a health check. */
  readonly session_id: string | null;
  readonly healthcheck_id: string | null;
  readonly state: WorkState;
  readonly metadata: string;
  /** Null when nobody holds the item. */
  readonly token_digest: Buffer | null;
  readonly claimed_by_key: string | null;
  readonly claimed_seq: number | null;
  readonly events_read_at: Date | null;
  readonly lease_expires_at: Date | null;
  readonly last_heartbeat: string | null;
  readonly outcome: "finished" | "failed" | "lost" | "withdrawn" | null;
  readonly failure: string | null;
  readonly created_at: Date;
  readonly claimed_at: Date | null;
  readonly acknowledged_at: Date | null;
  readonly started_at: Date | null;
  readonly latest_heartbeat_at: Date | null;
  readonly stop_requested_at: Date | null;
  readonly stopped_at: Date | null;
}

export const COLUMNS =
  "id, environment_id, session_id, healthcheck_id, state, metadata, token_digest, claimed_by_key, claimed_seq, events_read_at, lease_expires_at, last_heartbeat, outcome, failure, created_at, claimed_at, acknowledged_at, started_at, latest_heartbeat_at, stop_requested_at, stopped_at";

/** The item as the API shows it; `secret` is set in the answer to a poll only. */
export function toWork(row: WorkRow, secret: string | null = null): Work {
  const instant = (date: Date | null) => date?.toISOString() ?? null;
  return {
    id: row.id,
    type: "work",
    environment_id: row.environment_id,
    state: row.state,
    data:
      row.session_id === null
        ? { type: "healthcheck", id: row.healthcheck_id ?? "" }
        : { type: "session", id: row.session_id },
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    secret,
    created_at: row.created_at.toISOString(),
    acknowledged_at: instant(row.acknowledged_at),
    started_at: instant(row.started_at),
    latest_heartbeat_at: instant(row.latest_heartbeat_at),
    stop_requested_at: instant(row.stop_requested_at),
    stopped_at: instant(row.stopped_at),
  };
}

/** The item; with `lock` its row is locked, after its session's. A foreign id is not found. */
export async function findWork(
  database: Transaction,
  ref: WorkRef,
  options: { readonly lock: boolean } = { lock: false },
): Promise<WorkRow> {
  const { rows } = await database.query<WorkRow>(
    `select ${COLUMNS} from work_items where id = $1 and environment_id = $2 and workspace_id = $3${options.lock ? " for update" : ""}`,
    [ref.workId, ref.environmentId, ref.workspaceId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no work ${ref.workId} in this environment.`);
  }
  return row;
}

/** A page of an environment's items, newest first. */
export async function listWork(
  database: Transaction,
  page: {
    readonly workspaceId: string;
    readonly environmentId: string;
    readonly after: { readonly createdAt: Date; readonly id: string } | null;
    readonly limit: number;
  },
): Promise<Work[]> {
  const { rows } = await database.query<WorkRow>(
    `select ${COLUMNS} from work_items
      where environment_id = $1 and workspace_id = $2 and ($3::timestamptz is null or (created_at, id) < ($3, $4))
      order by created_at desc, id desc limit $5`,
    [page.environmentId, page.workspaceId, page.after?.createdAt ?? null, page.after?.id ?? null, page.limit],
  );
  return rows.map((row) => toWork(row));
}

/** Merges metadata under the item's row lock: null removes a key. Repeating the same patch changes nothing. */
export async function updateWorkMetadata(
  transaction: Transaction,
  ref: WorkRef,
  patch: Readonly<Record<string, string | null>> | null,
): Promise<Work> {
  const row = await findWork(transaction, ref, { lock: true });
  const metadata = JSON.stringify(patchMetadata(JSON.parse(row.metadata), patch));
  await transaction.query("update work_items set metadata = $2 where id = $1", [row.id, metadata]);
  return toWork({ ...row, metadata });
}
