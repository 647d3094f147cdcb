import { Conflict, NotFound, PreconditionFailed } from "../contract/errors.ts";
import { newSecret, secretDigest } from "../contract/ids.ts";
import type { Work, WorkHeartbeat, WorkState } from "../contract/work.ts";
import type { Transaction } from "../db/transaction.ts";
import type { Principal } from "../workspaces/keys.ts";

/**
 * A work item's life: queued → starting (ack) → active (first heartbeat) → stopping → stopped.
 *
 * A poll hands the item to one worker with a token of its own, rotated at every claim. Until the ack, a claim lasts
 * `reclaim_older_than_ms`; from then on the lease lasts `LEASE_SECONDS` from the last heartbeat. An item whose owner is
 * gone is handed to the next poll, and the old token opens nothing from that moment.
 */

/** A worker beats at half of this. */
export const LEASE_SECONDS = 60;
/** What a first heartbeat says it expects. */
const NO_HEARTBEAT = "NO_HEARTBEAT";

interface Row {
  id: string;
  environment_id: string;
  session_id: string;
  state: WorkState;
  metadata: string;
  last_heartbeat: string | null;
  created_at: Date;
  acknowledged_at: Date | null;
  started_at: Date | null;
  latest_heartbeat_at: Date | null;
  stop_requested_at: Date | null;
  stopped_at: Date | null;
}

const COLUMNS =
  "id, environment_id, session_id, state, metadata, last_heartbeat, created_at, acknowledged_at, started_at, latest_heartbeat_at, stop_requested_at, stopped_at";

function toWork(row: Row, secret: string | null = null): Work {
  const instant = (date: Date | null) => date?.toISOString() ?? null;
  return {
    id: row.id,
    type: "work",
    environment_id: row.environment_id,
    state: row.state,
    data: { type: "session", id: row.session_id },
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

/** Which item of which environment; environments belong to one workspace, so the pair is the tenant boundary. */
export interface WorkRef {
  readonly workspaceId: string;
  readonly environmentId: string;
  readonly workId: string;
}

/**
 * Claims the oldest item that nobody holds; null when there is none. One statement: two polls never get the same item.
 *
 * An item whose session has another one that is still stopping waits for it: two workers would be shown the same open
 * call. A stopping item whose owner is gone (its lease has run out) is ended on the way.
 */
export async function claimWork(
  database: Transaction,
  params: {
    readonly workspaceId: string;
    readonly environmentId: string;
    readonly workerId: string | null;
    readonly reclaimOlderThanMs: number;
  },
): Promise<Work | null> {
  const token = newSecret("sk-mango-ses");
  const { rows } = await database.query<Row>(
    `with ended as (
       update work_items set state = 'stopped', token_digest = null, stopped_at = now()
        where environment_id = $1 and workspace_id = $2 and state = 'stopping' and lease_expires_at < now()
     )
     update work_items set state = 'queued', token_digest = $3, worker_id = $4, claimed_at = now(), acknowledged_at = null,
            started_at = null, last_heartbeat = null, latest_heartbeat_at = null, lease_expires_at = null
      where id = (
        select id from work_items item
         where environment_id = $1 and workspace_id = $2
           and ((state = 'queued' and (claimed_at is null or claimed_at < now() - make_interval(secs => $5)))
             or (state in ('starting', 'active') and lease_expires_at < now()))
           and not exists (
             select 1 from work_items other
              where other.session_id = item.session_id and other.state = 'stopping' and other.lease_expires_at >= now())
         order by created_at limit 1 for update skip locked)
      returning ${COLUMNS}`,
    [params.environmentId, params.workspaceId, secretDigest(token), params.workerId, params.reclaimOlderThanMs / 1000],
  );
  const row = rows[0];
  return row === undefined
    ? null
    : toWork(row, Buffer.from(JSON.stringify({ sessions_token: token })).toString("base64url"));
}

/** The claim is taken up: the item leaves the queue. */
export async function acknowledgeWork(database: Transaction, ref: WorkRef): Promise<Work> {
  const { rows } = await database.query<Row>(
    `update work_items set state = 'starting', acknowledged_at = now(), lease_expires_at = now() + make_interval(secs => $4)
      where id = $1 and environment_id = $2 and workspace_id = $3 and state = 'queued' and token_digest is not null
      returning ${COLUMNS}`,
    [ref.workId, ref.environmentId, ref.workspaceId, LEASE_SECONDS],
  );
  const row = rows[0];
  if (row === undefined) {
    const found = await findWork(database, ref);
    throw new Conflict(`Work ${ref.workId} is ${found.state}; only a claimed item of the queue can be acknowledged.`);
  }
  return toWork(row);
}

/**
 * Extends the lease when the worker repeats the last heartbeat exactly; the first beat says NO_HEARTBEAT. An item that
 * is stopping or stopped is not compared, so that even a stale beat learns of the stop.
 */
export async function heartbeat(
  database: Transaction,
  ref: WorkRef,
  params: { readonly expected: string; readonly ttlSeconds: number; readonly holder: Buffer | null },
): Promise<WorkHeartbeat> {
  const { rows } = await database.query<Row>(
    `update work_items set state = 'active', started_at = coalesce(started_at, now()), latest_heartbeat_at = now(),
            last_heartbeat = to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            lease_expires_at = now() + make_interval(secs => $5)
      where id = $1 and environment_id = $2 and workspace_id = $3 and state in ('starting', 'active')
        and coalesce(last_heartbeat, '${NO_HEARTBEAT}') = $4 and ($6::bytea is null or token_digest = $6)
      returning ${COLUMNS}`,
    [ref.workId, ref.environmentId, ref.workspaceId, params.expected, params.ttlSeconds, params.holder],
  );
  const beat = rows[0];
  if (beat !== undefined) {
    return {
      type: "work_heartbeat",
      last_heartbeat: beat.last_heartbeat ?? "",
      lease_extended: true,
      state: beat.state,
      ttl_seconds: params.ttlSeconds,
    };
  }
  const found = await findWork(database, ref);
  if (found.state === "stopping" || found.state === "stopped") {
    return {
      type: "work_heartbeat",
      last_heartbeat: found.last_heartbeat ?? "",
      lease_extended: false,
      state: found.state,
      ttl_seconds: params.ttlSeconds,
    };
  }
  throw new PreconditionFailed(
    `Heartbeat precondition failed: expected ${params.expected}, actual was ${found.last_heartbeat ?? "NULL"}`,
    {
      details: {
        error_code: "heartbeat_precondition_failed",
        current_state: {
          state: found.state,
          last_heartbeat: found.last_heartbeat,
          lease_extended: false,
          ttl_seconds: params.ttlSeconds,
        },
      },
    },
  );
}

/**
 * Stops an item. With `force`, or when its worker confirms a stop, it is stopped for good and its token is dead;
 * otherwise the worker learns of it with the next beat. An item that no worker has begun goes back to the queue: a
 * launcher that claims and hands over to another process must not lose it.
 */
export async function stopWork(
  transaction: Transaction,
  ref: WorkRef,
  params: { readonly force: boolean },
): Promise<Work> {
  const { rows } = await transaction.query<Row>(
    `update work_items set
        state = case when $4 or state = 'stopping' then 'stopped' when state = 'active' then 'stopping' else 'queued' end,
        token_digest = case when not $4 and state = 'active' then token_digest end,
        claimed_at = case when not $4 and state in ('queued', 'starting') then null else claimed_at end,
        lease_expires_at = case when not $4 and state in ('queued', 'starting') then null else lease_expires_at end,
        stop_requested_at = coalesce(stop_requested_at, now()),
        stopped_at = case when $4 or state = 'stopping' then now() end
      where id = $1 and environment_id = $2 and workspace_id = $3 and state <> 'stopped'
      returning ${COLUMNS}`,
    [ref.workId, ref.environmentId, ref.workspaceId, params.force],
  );
  const row = rows[0];
  if (row === undefined) {
    await findWork(transaction, ref);
    throw new Conflict(`Work ${ref.workId} is stopped already.`);
  }
  return toWork(row);
}

/** The session that the item is for. */
export async function sessionOfWork(database: Transaction, ref: WorkRef): Promise<string> {
  return (await findWork(database, ref)).session_id;
}

async function findWork(database: Transaction, ref: WorkRef): Promise<Row> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from work_items where id = $1 and environment_id = $2 and workspace_id = $3`,
    [ref.workId, ref.environmentId, ref.workspaceId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no work ${ref.workId} in this environment.`);
  }
  return row;
}

/** An environment key reaches its own environment, a claim's token its own item; anything else is not found. */
export function assertOwnWork(
  principal: Principal,
  ref: { readonly environmentId: string; readonly workId?: string },
): void {
  const foreign =
    principal.kind !== "api_key" &&
    (principal.environmentId !== ref.environmentId ||
      (principal.kind === "work" && ref.workId !== undefined && principal.workId !== ref.workId));
  if (foreign) {
    throw new NotFound(
      `There is no ${ref.workId === undefined ? `environment ${ref.environmentId}` : `work ${ref.workId}`}.`,
    );
  }
}
