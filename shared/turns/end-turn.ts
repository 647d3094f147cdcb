import type { Transaction } from "../db/transaction.ts";
import { isSettled, stepsOfRound } from "../journal/tool-steps.ts";
import { acknowledge, type OutboxRow } from "../outbox/outbox.ts";
import type { SessionUnit, StopReason } from "../sessions/session-unit.ts";
import { resultsEntry } from "../transcript/results-entry.ts";
import { appendEntry } from "../transcript/transcript.ts";
import { beginTurn } from "./begin-turn.ts";
import { closeNativeCalls } from "./native-calls.ts";
import { latestRound } from "./rounds.ts";
import { setTurnState, type TurnRow } from "./turn-row.ts";

interface Ending {
  readonly state: "completed" | "interrupted" | "exhausted";
  readonly reason: StopReason;
  /** What becomes of input that waits: the first starts the next turn, or all of it is flushed. */
  readonly queued: "start_next" | "flush";
}

/**
 * Ends a turn in the transaction that decided so: its transcript joins the thread, its promises are withdrawn, and the
 * thread goes on with the next queued input or stands idle. No input is ever left behind an idle.
 *
 * - completed: the next queued input starts at once; only without one does the session go idle.
 * - interrupted: exactly one idle `end_turn`, then the next queued input.
 * - exhausted, and interrupted for good: what was queued is flushed: stamped processed without a turn of its own, and
 *   kept in the transcript, so that the model sees it with the next request, if there is one.
 */
export async function endTurn(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  ending: Ending,
): Promise<OutboxRow[]> {
  await keepResults(transaction, unit, turn);
  await closeNativeCalls(transaction, unit, turn);
  await setTurnState(transaction, { turnId: turn.id, state: ending.state });
  await acknowledge(transaction, { turnId: turn.id, segment: turn.segment });
  const flush = ending.queued === "flush";
  const queued = await queuedMessages(transaction, unit, turn.threadId, flush ? null : 1);
  if (flush) {
    for (const message of queued) {
      unit.stamp(message.eventId);
      await appendEntry(transaction, unit.session, turn, { role: "user", content: message.content });
    }
    unit.idle(turn.threadId, turn.id, ending.reason);
    return [];
  }
  const next = queued[0];
  // An ordinary end needs no idle when the thread goes on; anything else a client must get to see.
  if (next === undefined || ending.state === "interrupted" || ending.reason.type !== "end_turn") {
    unit.idle(turn.threadId, turn.id, ending.reason);
  }
  if (next === undefined) {
    return [];
  }
  unit.stamp(next.eventId);
  return [
    await beginTurn(transaction, unit, { eventId: next.eventId, threadId: turn.threadId, content: next.content }),
  ];
}

/** Results of the last round that no request has carried yet: what is known is kept, the rest is derived on read. */
async function keepResults(transaction: Transaction, unit: SessionUnit, turn: TurnRow): Promise<void> {
  const round = await latestRound(transaction, turn.id);
  if (round?.state !== "gated") {
    return;
  }
  const settled = (await stepsOfRound(transaction, { turnId: turn.id, round: round.number })).filter(isSettled);
  if (settled.length > 0) {
    await appendEntry(transaction, unit.session, turn, resultsEntry(settled));
  }
}

async function queuedMessages(
  transaction: Transaction,
  unit: SessionUnit,
  threadId: string,
  limit: number | null,
): Promise<{ eventId: string; content: string }[]> {
  const { rows } = await transaction.query<{ id: string; payload: string }>(
    `select id, payload from events where session_id = $1 and thread_id = $2 and processed_at is null and type = 'user.message'
      order by seq limit $3`,
    [unit.session.id, threadId, limit],
  );
  return rows.map((row) => ({
    eventId: row.id,
    content: JSON.stringify((JSON.parse(row.payload) as { content: unknown }).content),
  }));
}
