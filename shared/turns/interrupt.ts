import type { Transaction } from "../db/transaction.ts";
import { stepsOfRound } from "../journal/tool-steps.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { closeOpenCalls } from "./close-calls.ts";
import { endTurn } from "./end-turn.ts";
import { closeSpan } from "./open-span.ts";
import { latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/**
 * Ends a turn because a person said so, in the transaction that admits the interrupt. The fence does the rest: a
 * handler that is still at work finds that it lost the turn and leaves no trace but its cost, so StopExecution is never
 * needed, and whichever commits first, the interrupt or the completion, wins.
 *
 * Completed results are kept, unpublished calls are dropped, open calls are closed (as ambiguous where somebody may have
 * begun them), an open span is ended.
 */
export async function interruptTurn(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  options: { readonly startNext: boolean } = { startNext: true },
): Promise<OutboxRow[]> {
  const round = await latestRound(transaction, turn.id);
  if (round !== null) {
    const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
    await closeSpan(transaction, unit, turn, { round, calls: steps.length, errorType: "interrupted" });
  }
  await closeOpenCalls(transaction, unit, turn, "The call was interrupted, and whether it took effect is unknown.");
  const queued = options.startNext ? "start_next" : "flush";
  return endTurn(transaction, unit, turn, { state: "interrupted", reason: { type: "end_turn" }, queued });
}
