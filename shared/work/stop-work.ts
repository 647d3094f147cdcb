import { Conflict, NotFound } from "../contract/errors.ts";
import type { Transaction } from "../db/transaction.ts";
import { lockSession, type SessionRow } from "../sessions/session-row.ts";
import type { Principal } from "../workspaces/keys.ts";
import { type EndedClaim, endClaim, failClaim } from "./end-claim.ts";
import { ensureWork } from "./ensure-work.ts";
import { endHealthcheck } from "./healthchecks.ts";
import { mayUse } from "./holder.ts";
import { runnableCalls } from "./open-calls.ts";
import { COLUMNS, findWork, type WorkRef, type WorkRow } from "./work-row.ts";

const HANDED_BACK = "The worker's item was handed back while this call was open; whether it took effect is unknown.";
const BY_FORCE = "The worker was stopped by force while this call was open; whether it took effect is unknown.";

/**
 * Stops an item.
 *
 * - With force: for good, and its token is dead at once. By the token itself this is the worker's last word, and leaves
 *   open what it has not begun; by anybody else it fences a worker that may be in the middle of a call.
 * - Without: an active item is asked to stop, and its worker learns of it with the next beat; its confirmation, by the
 *   token or the environment key that claimed, stops it. A claim without a heartbeat goes back to the queue: a launcher
 *   that claims and hands over to another process must not lose it (anthropics/anthropic-sdk-python#1779). That other
 *   process may have read the events by then: what it may have begun is closed first, unless the stop is its own word.
 */
export async function stopWork(
  transaction: Transaction,
  ref: WorkRef,
  params: { readonly force: boolean; readonly principal: Principal },
): Promise<EndedClaim> {
  const { principal, force } = params;
  const locked = await lockItem(transaction, ref, principal);
  const { session, item } = locked;
  if (session === null) {
    // A health check is never handed out twice.
    const stopped = principal.kind === "api_key" ? "withdrawn" : "finished";
    return endHealthcheck(transaction, item, { outcome: stopped, failure: null });
  }
  if (force) {
    const abandoned = principal.kind === "work" ? null : { until: null, why: BY_FORCE };
    return endClaim(transaction, session, item, { to: "stopped", abandoned });
  }
  switch (item.state) {
    case "active":
      return askToStop(transaction, session, item);
    case "stopping":
      // An operator who asks again is no worker that confirms.
      return principal.kind === "api_key"
        ? { item, outbox: [], wakeEnvironment: null }
        : endClaim(transaction, session, item, { to: "stopped", abandoned: null });
    default:
      return item.token_digest === null
        ? { item, outbox: [], wakeEnvironment: null }
        : endClaim(transaction, session, item, {
            to: "queued",
            abandoned: principal.kind === "work" ? null : { until: null, why: HANDED_BACK },
          });
  }
}

/** The worker could not prepare: the item is stopped for good, and the session's turn ends with an error event. */
export async function failWork(
  transaction: Transaction,
  ref: WorkRef,
  params: { readonly message: string; readonly principal: Principal },
): Promise<EndedClaim> {
  const { session, item } = await lockItem(transaction, ref, params.principal);
  return session === null
    ? endHealthcheck(transaction, item, { outcome: "failed", failure: params.message })
    : failClaim(transaction, session, item, params.message);
}

/** The item and its session, locked in the order of every transaction that holds both; a stopped one is a conflict. */
async function lockItem(
  transaction: Transaction,
  ref: WorkRef,
  principal: Principal,
): Promise<{ readonly session: SessionRow | null; readonly item: WorkRow }> {
  const { session_id: sessionId } = await findWork(transaction, ref);
  const session = sessionId === null ? null : await lockSession(transaction, { sessionId });
  if (sessionId !== null && session === null) {
    throw new NotFound(`There is no work ${ref.workId} in this environment.`);
  }
  const item = await findWork(transaction, ref, { lock: true });
  if (item.state === "stopped") {
    throw new Conflict(`Work ${ref.workId} is stopped already.`);
  }
  mayUse(principal, item);
  return { session, item };
}

/** active → stopping. A call that may run needs somebody else, who waits until this worker has stopped. */
async function askToStop(transaction: Transaction, session: SessionRow, item: WorkRow): Promise<EndedClaim> {
  const { rows } = await transaction.query<WorkRow>(
    `update work_items set state = 'stopping', stop_requested_at = coalesce(stop_requested_at, now())
      where id = $1 returning ${COLUMNS}`,
    [item.id],
  );
  const runnable = await runnableCalls(transaction, session.id);
  const queued = runnable.length > 0 && (await ensureWork(transaction, session));
  return { item: rows[0] ?? item, outbox: [], wakeEnvironment: queued ? item.environment_id : null };
}
