import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { Aftermath } from "../sessions/announce.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { releaseStopped } from "../turns/await-actions.ts";
import { closeCalls, openCalls } from "../turns/close-calls.ts";
import { endFailedTurn } from "../turns/end-failed-turn.ts";
import { settleBarrier, waitingFor } from "../turns/settle-barrier.ts";
import { activeTurn, type TurnRow } from "../turns/turn-row.ts";
import { judgeActivation } from "./activation.ts";
import { ensureWork } from "./ensure-work.ts";
import { answeredSince, type RunnableCall, runnableCalls } from "./open-calls.ts";
import { COLUMNS, type WorkRow } from "./work-row.ts";

/**
 * The end of a claim, in one transaction under the session's lock:
 *
 * - the owner is fenced: its token opens nothing from the commit on, and a write of its that waits for the lock is
 *   refused (`assertHolds`);
 * - where the owner is gone without a word, the calls that it may have begun are closed as ambiguous before anybody
 *   else can be shown them, and the turn goes on with those results;
 * - the item goes back to the queue or is stopped, and while a worker may run a call there is a live item: for one that
 *   waits for a person's answer the answer queues it, which may take a year;
 * - what the claim achieved is judged: the fifth fruitless one in a row ends the turn with an error.
 *
 * A crash before the commit leaves the claim as it was, to be judged again; after it the relay finds the outbox.
 */

/** How long after its lease a worker may still receive a call: one that was read for it before is on its way. */
const STREAM_GRACE_MS = 5000;
export const GIVEN_UP =
  "Five workers in a row took this session up and answered none of its calls. Check the environment's worker, then send the message again.";

export interface Ending {
  readonly to: "queued" | "stopped";
  /** Set when the owner cannot say what it has begun: until when it could begin calls, and what their results say. */
  readonly abandoned: { readonly until: Date | null; readonly why: string } | null;
}

export interface EndedClaim extends Aftermath {
  readonly item: WorkRow;
}

/** Ends the claim on a session's item. The caller holds the session's lock, then the item's. */
export async function endClaim(
  transaction: Transaction,
  session: SessionRow,
  item: WorkRow,
  ending: Ending,
): Promise<EndedClaim> {
  const unit = new SessionUnit(transaction, session);
  const turn = await activeTurn(transaction, { threadId: session.primaryThreadId });
  const outbox: OutboxRow[] = [];
  const runnable = turn === null ? [] : await runnableCalls(transaction, session.id);
  const begun =
    ending.abandoned === null || !mayHaveBegun(item) ? [] : runnable.filter(begunBy(ending.abandoned.until));
  if (turn !== null && ending.abandoned !== null && begun.length > 0) {
    outbox.push(...(await closeBegun(transaction, unit, turn, begun, ending.abandoned.why)));
  }
  const leftOpen = runnable.length - begun.length;
  const { fruitless, backoffSeconds } = judgeActivation(await fruitlessActivations(transaction, session.id), {
    leftOpen,
    // A claim of an older release does not know where it began.
    answered:
      begun.length > 0 || item.claimed_seq === null || (await answeredSince(transaction, session.id, item.claimed_seq)),
  });
  const givenUp = backoffSeconds === null;
  const turnFailed = givenUp && turn !== null;
  await setFruitless(transaction, session.id, givenUp ? 0 : fruitless);
  const ended = await releaseItem(transaction, item, givenUp ? "stopped" : ending.to, backoffSeconds ?? 0);
  if (turnFailed) {
    outbox.push(...(await giveUp(transaction, unit, turn, GIVEN_UP)));
  }
  const queued = !givenUp && leftOpen > 0 && (await ensureWork(transaction, session, backoffSeconds));
  if (unit.changesLedger) {
    await unit.flush();
  }
  const wakeEnvironment = queued || ended.state === "queued" ? item.environment_id : null;
  return { item: ended, outbox, wakeEnvironment, turnFailed };
}

/** Ends the claim because its worker could not even prepare: nobody waits for calls that it will never run. */
export async function failClaim(
  transaction: Transaction,
  session: SessionRow,
  item: WorkRow,
  message: string,
): Promise<EndedClaim> {
  const unit = new SessionUnit(transaction, session);
  const turn = await activeTurn(transaction, { threadId: session.primaryThreadId });
  const ended = await releaseItem(transaction, item, "stopped", 0);
  await setFruitless(transaction, session.id, 0);
  const outbox = turn === null ? [] : await giveUp(transaction, unit, turn, `The worker failed: ${message}`);
  if (unit.changesLedger) {
    await unit.flush();
  }
  return { item: ended, outbox, wakeEnvironment: null, turnFailed: turn !== null };
}

/** Whether the owner of this claim may have begun a call: it beat, or was shown the session's events. */
function mayHaveBegun(item: WorkRow): boolean {
  return item.state === "active" || item.state === "stopping" || item.events_read_at !== null;
}

function begunBy(until: Date | null): (call: RunnableCall) => boolean {
  return (call) => until === null || call.since.getTime() < until.getTime() + STREAM_GRACE_MS;
}

async function closeBegun(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  begun: readonly RunnableCall[],
  why: string,
): Promise<OutboxRow[]> {
  const waitingBefore = await waitingFor(transaction, turn);
  const calls = (await openCalls(transaction, turn)).filter((step) => begun.some(({ stepId }) => stepId === step.id));
  await closeCalls(transaction, unit, turn, calls, why);
  return settleBarrier(transaction, unit, turn, { waitingBefore, cause: newId("sevt") });
}

/** Ends the turn with an error, and the wait of its execution. */
async function giveUp(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  message: string,
): Promise<OutboxRow[]> {
  const outbox = await endFailedTurn(transaction, unit, turn, {
    errorType: "worker_failed",
    callsClosed: "No worker could run this call; whether it took effect is unknown.",
    message,
  });
  // A successor that waits for this item has nothing left to do.
  await transaction.query(
    "update work_items set state = 'stopped', stopped_at = now(), token_digest = null where session_id = $1 and state = 'queued'",
    [turn.sessionId],
  );
  return [...outbox, ...(await releaseStopped(transaction, turn))];
}

async function releaseItem(
  transaction: Transaction,
  item: WorkRow,
  to: "queued" | "stopped",
  backoffSeconds: number,
): Promise<WorkRow> {
  const sql =
    to === "stopped"
      ? `state = 'stopped', token_digest = null, stopped_at = now(), stop_requested_at = coalesce(stop_requested_at, now())`
      : `state = 'queued', token_digest = null, claimed_by_key = null, claimed_at = null, claimed_seq = null,
         events_read_at = null, lease_expires_at = null, acknowledged_at = null, started_at = null,
         last_heartbeat = null, latest_heartbeat_at = null, not_before = now() + make_interval(secs => $2)`;
  const { rows } = await transaction.query<WorkRow>(
    `update work_items set ${sql} where id = $1 returning ${COLUMNS}`,
    to === "stopped" ? [item.id] : [item.id, backoffSeconds],
  );
  return rows[0] ?? item;
}

async function fruitlessActivations(transaction: Transaction, sessionId: string): Promise<number> {
  const { rows } = await transaction.query<{ fruitless_activations: number }>(
    "select fruitless_activations from sessions where id = $1",
    [sessionId],
  );
  return rows[0]?.fruitless_activations ?? 0;
}

async function setFruitless(transaction: Transaction, sessionId: string, count: number): Promise<void> {
  await transaction.query(
    "update sessions set fruitless_activations = $2 where id = $1 and fruitless_activations <> $2",
    [sessionId, count],
  );
}
