import { Conflict, PreconditionFailed } from "../contract/errors.ts";
import { newSecret, secretDigest } from "../contract/ids.ts";
import type { Work, WorkHeartbeat } from "../contract/work.ts";
import type { Transaction } from "../db/transaction.ts";
import type { Principal } from "../workspaces/keys.ts";
import { mayUse } from "./holder.ts";
import { COLUMNS, findWork, toWork, type WorkRef, type WorkRow } from "./work-row.ts";

/**
 * A work item's life: queued → starting (ack) → active (first heartbeat) → stopping → stopped.
 *
 * A poll hands the item to one worker with a token of its own, rotated at every claim. Until the ack, a claim lasts
 * `reclaim_older_than_ms` and its token opens nothing; from then on the lease lasts `LEASE_SECONDS` from the ack, and
 * what a heartbeat asked for from the last one. How a claim ends is in `end-claim.ts`; here it begins and is kept.
 */

/** A worker beats at half of this. */
export const LEASE_SECONDS = 60;
/** What a first heartbeat says it expects. */
const NO_HEARTBEAT = "NO_HEARTBEAT";

/**
 * Claims the oldest item that nobody holds; null when there is none. One statement: two polls never get the same item,
 * and a crash after it leaves a claim that the next poll takes over.
 *
 * An item whose session has another one that is still stopping waits for it: two workers would be shown the same open
 * call. What was acknowledged and lost its owner is not here: `lost-claims.ts` has judged it before and put it back.
 */
export async function claimWork(
  database: Transaction,
  params: {
    readonly workspaceId: string;
    readonly environmentId: string;
    readonly keyId: string;
    readonly workerId: string | null;
    readonly reclaimOlderThanMs: number;
  },
): Promise<Work | null> {
  const token = newSecret("sk-mango-ses");
  const { rows } = await database.query<WorkRow>(
    `update work_items set token_digest = $3, worker_id = $4, claimed_by_key = $6, claimed_at = now(),
            claimed_seq = (select last_seq from sessions s where s.id = work_items.session_id), events_read_at = null,
            acknowledged_at = null, started_at = null, last_heartbeat = null, latest_heartbeat_at = null,
            lease_expires_at = null
      where id = (
        select id from work_items item
         where environment_id = $1 and workspace_id = $2 and state = 'queued'
           and (claimed_at is null or claimed_at < now() - make_interval(secs => $5))
           and (not_before is null or not_before <= now())
           and not exists (
             select 1 from work_items other where other.session_id = item.session_id and other.state = 'stopping')
         order by created_at limit 1 for update skip locked)
      returning ${COLUMNS}`,
    [
      params.environmentId,
      params.workspaceId,
      secretDigest(token),
      params.workerId,
      params.reclaimOlderThanMs / 1000,
      params.keyId,
    ],
  );
  const row = rows[0];
  return row === undefined
    ? null
    : toWork(row, Buffer.from(JSON.stringify({ sessions_token: token })).toString("base64url"));
}

/**
 * The claim is taken up: the item leaves the queue. Again before the first heartbeat it is the same answer, so that a
 * worker whose reply was lost goes on. Only the claim's token, or the environment key that claimed, may do it.
 */
export async function acknowledgeWork(database: Transaction, ref: WorkRef, principal: Principal): Promise<Work> {
  const found = await findWork(database, ref);
  if (found.token_digest === null || (found.state !== "queued" && found.state !== "starting")) {
    throw new Conflict(`Work ${ref.workId} is ${found.state}; only a claimed item of the queue can be acknowledged.`);
  }
  mayUse(principal, found);
  // The digest is compared again: since the look above another poll may have claimed the item.
  const { rows } = await database.query<WorkRow>(
    `update work_items set state = 'starting', acknowledged_at = coalesce(acknowledged_at, now()),
            lease_expires_at = coalesce(lease_expires_at, now() + make_interval(secs => $3))
      where id = $1 and token_digest = $2 and state in ('queued', 'starting')
      returning ${COLUMNS}`,
    [ref.workId, found.token_digest, LEASE_SECONDS],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new Conflict(`Work ${ref.workId} has another owner now.`);
  }
  return toWork(row);
}

/** Shortest and longest lease that a worker may ask for, in seconds; what is outside is brought inside. */
const TTL_RANGE = { min: 10, max: 300 } as const;

/**
 * Extends the lease when the worker repeats the last heartbeat exactly; the first beat says NO_HEARTBEAT. Without an
 * expectation nothing is compared: the token itself names the claim. An item that is stopping or stopped is not
 * compared either, so that even a stale beat learns of the stop.
 *
 * A beat is one statement and takes no session lock. Against the judgment of a lost lease the item's row lock decides:
 * a beat that comes first is seen by the judge, one that comes second finds another state and token.
 */
export async function heartbeat(
  database: Transaction,
  ref: WorkRef,
  params: {
    readonly expected: string | null;
    readonly ttlSeconds: number;
    /** The digest of the token that beats. */
    readonly holder: Buffer;
  },
): Promise<WorkHeartbeat> {
  const ttlSeconds = Math.min(Math.max(params.ttlSeconds, TTL_RANGE.min), TTL_RANGE.max);
  const { rows } = await database.query<WorkRow>(
    `update work_items set state = 'active', started_at = coalesce(started_at, now()), latest_heartbeat_at = now(),
            last_heartbeat = to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            lease_expires_at = now() + make_interval(secs => $5)
      where id = $1 and environment_id = $2 and workspace_id = $3 and state in ('starting', 'active')
        and ($4::text is null or coalesce(last_heartbeat, '${NO_HEARTBEAT}') = $4) and token_digest = $6
        and lease_expires_at >= now()
      returning ${COLUMNS}`,
    [ref.workId, ref.environmentId, ref.workspaceId, params.expected, ttlSeconds, params.holder],
  );
  const beat = rows[0];
  if (beat !== undefined) {
    return {
      type: "work_heartbeat",
      last_heartbeat: beat.last_heartbeat ?? "",
      lease_extended: true,
      state: beat.state,
      ttl_seconds: ttlSeconds,
    };
  }
  const found = await findWork(database, ref);
  if (found.state === "stopping" || found.state === "stopped") {
    return {
      type: "work_heartbeat",
      last_heartbeat: found.last_heartbeat ?? "",
      lease_extended: false,
      state: found.state,
      ttl_seconds: ttlSeconds,
    };
  }
  throw new PreconditionFailed(
    `Heartbeat precondition failed: expected ${params.expected ?? "any"}, actual was ${found.last_heartbeat ?? "NULL"}`,
    {
      details: {
        error_code: "heartbeat_precondition_failed",
        current_state: {
          state: found.state,
          last_heartbeat: found.last_heartbeat,
          lease_extended: false,
          ttl_seconds: ttlSeconds,
        },
      },
    },
  );
}

/** The claim has been shown its session's events: from now on it may have begun a call. Written once a claim. */
export async function noteEventsRead(database: Transaction, principal: Principal): Promise<void> {
  if (principal.kind === "work") {
    await database.query(
      "update work_items set events_read_at = now() where id = $1 and token_digest = $2 and events_read_at is null",
      [principal.workId, principal.digest],
    );
  }
}
