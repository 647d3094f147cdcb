import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { stepsOfRound } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { closeOpenCalls } from "./close-calls.ts";
import { endTurn } from "./end-turn.ts";
import { closeSpan } from "./open-span.ts";
import { latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/** What made it impossible to finish a turn. */
export interface Failure {
  /** Recorded with a model request that was under way. */
  readonly errorType: string;
  /** What the results of open calls say. */
  readonly callsClosed: string;
  /** What `session.error` says. */
  readonly message: string;
}

const INTERNAL: Failure = {
  errorType: "turn_failed",
  callsClosed: "The turn failed before this call had a result; whether it took effect is unknown.",
  message:
    "The turn could not be finished because of an internal error. The session is usable; send the message again.",
};

/**
 * Ends a turn that could not be brought to its end, by a fault of ours unless told otherwise: exhausted and idle, never
 * terminated, with an error that a client can see. Its open span and calls are closed in the same transaction; the
 * caller holds the session's lock, and an execution that still works on the turn is fenced by the commit.
 */
export async function endFailedTurn(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  failure: Failure = INTERNAL,
): Promise<OutboxRow[]> {
  const round = await latestRound(transaction, turn.id);
  if (round !== null) {
    const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
    await closeSpan(transaction, unit, turn, { round, calls: steps.length, errorType: failure.errorType });
  }
  await closeOpenCalls(transaction, unit, turn, failure.callsClosed);
  unit.append({
    id: derivedId("sevt", turn.id, "session.error"),
    type: "session.error",
    threadId: turn.threadId,
    payload: splice({
      error: { type: "unknown_error", message: failure.message, retry_status: { type: "exhausted" } },
    }),
  });
  return endTurn(transaction, unit, turn, {
    state: "exhausted",
    reason: { type: "retries_exhausted" },
    queued: "flush",
  });
}
