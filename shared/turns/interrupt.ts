import type { Transaction } from "../db/transaction.ts";
import { endCall, NO_USAGE } from "../journal/provider-calls.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { spanEnd } from "./begin-round.ts";
import { closeOpenCalls } from "./close-calls.ts";
import { endTurn } from "./end-turn.ts";
import { callUsage, latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/**
 * Ends a turn because a person said so, in the transaction that admits the interrupt. The fence does the rest: a
 * handler that is still at work finds that it lost the turn and leaves no trace but its cost, so StopExecution is never
 * needed, and whichever commits first, the interrupt or the completion, wins.
 *
 * Completed results are kept, unpublished calls are dropped, open calls are closed as ambiguous, an open span is ended.
 */
export async function interruptTurn(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  options: { readonly startNext: boolean } = { startNext: true },
): Promise<OutboxRow[]> {
  const round = await latestRound(transaction, turn.id);
  if (round !== null && spanIsOpen(round.state, round.call.state, round.stopReason)) {
    const unanswered = round.state === "open";
    const usage = unanswered ? NO_USAGE : await callUsage(transaction, round.call.id);
    if (unanswered) {
      await endCall(transaction, {
        callId: round.call.id,
        state: "ambiguous",
        usage: NO_USAGE,
        errorType: "interrupted",
      });
    }
    unit.append(
      spanEnd({
        callId: round.call.id,
        spanEventId: round.call.spanEventId,
        threadId: turn.threadId,
        isError: unanswered,
        usage,
      }),
    );
  }
  await closeOpenCalls(transaction, unit, turn, "The call was interrupted, and whether it took effect is unknown.");
  const queued = options.startNext ? "start_next" : "flush";
  return endTurn(transaction, unit, turn, { state: "interrupted", reason: { type: "end_turn" }, queued });
}

/** A failed call closed its span already; an answered round without calls did so with its answer. */
function spanIsOpen(round: "open" | "answered" | "gated", call: string, stopReason: string | null): boolean {
  return (round === "open" && call === "started") || (round === "answered" && stopReason === "tool_use");
}
