import type { Transaction } from "../db/transaction.ts";
import { endCall, NO_USAGE } from "../journal/provider-calls.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { spanEnd } from "./begin-round.ts";
import { callUsage, type RoundRow } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/**
 * Whether a round's model request has been announced and not yet ended in the ledger. A failed call ended its span with
 * its failure, an answer without calls with the answer, and an answer with calls when the gate published them.
 */
export function spanIsOpen(round: Pick<RoundRow, "state">, call: RoundRow["call"]["state"], calls: number): boolean {
  switch (round.state) {
    case "open":
      return call === "started";
    case "answered":
      return calls > 0;
    case "gated":
      return false;
  }
}

/** Ends the open span of a turn that is being ended from outside; a call that nobody has answered becomes ambiguous. */
export async function closeSpan(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  params: { readonly round: RoundRow; readonly calls: number; readonly errorType: string },
): Promise<void> {
  const { round } = params;
  if (!spanIsOpen(round, round.call.state, params.calls)) {
    return;
  }
  const unanswered = round.state === "open";
  if (unanswered) {
    await endCall(transaction, {
      callId: round.call.id,
      state: "ambiguous",
      usage: NO_USAGE,
      errorType: params.errorType,
    });
  }
  unit.append(
    spanEnd({
      callId: round.call.id,
      spanEventId: round.call.spanEventId,
      threadId: turn.threadId,
      isError: unanswered,
      usage: unanswered ? NO_USAGE : await callUsage(transaction, round.call.id),
    }),
  );
}
