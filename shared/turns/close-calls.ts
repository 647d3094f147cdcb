import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { isSettled, settleStep, stepsOfRound } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { actionsOfSteps, resolveAction } from "../permissions/barrier.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/**
 * Closes every published call that has no result, in the transaction that ends its turn. The ledger gets a
 * server-authored result for each: clients that replay history, the official workers among them, run every allowed
 * call that has none.
 */
export async function closeOpenCalls(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  why: string,
): Promise<void> {
  const round = await latestRound(transaction, turn.id);
  if (round?.state !== "gated") {
    // Calls that were never published are dropped: nobody has seen them.
    return;
  }
  const open = (await stepsOfRound(transaction, { turnId: turn.id, round: round.number })).filter(
    (step) => !isSettled(step),
  );
  const actions = await actionsOfSteps(transaction, turn.sessionId, open);
  const content = JSON.stringify([{ type: "text", text: why }]);
  for (const step of open) {
    const eventId = derivedId("sevt", step.id, "tool_result");
    await settleStep(transaction, {
      stepId: step.id,
      state: "ambiguous",
      result: content,
      isError: true,
      resultEventId: eventId,
    });
    for (const action of actions) {
      if (action.stepId === step.id && action.resolution === null) {
        await resolveAction(transaction, {
          sessionId: turn.sessionId,
          eventId: step.eventId,
          need: action.need,
          resolution: "closed",
          resolvedByEventId: eventId,
        });
      }
    }
    const result = { content, is_error: "true" };
    if (step.owner === "client_custom") {
      unit.append({
        id: eventId,
        threadId: turn.threadId,
        type: "user.custom_tool_result",
        payload: splice({ custom_tool_use_id: step.eventId }, result),
      });
    } else if (step.owner === "client_self_hosted") {
      unit.append({
        id: eventId,
        threadId: turn.threadId,
        type: "user.tool_result",
        payload: splice({ tool_use_id: step.eventId }, result),
      });
    } else {
      unit.append({
        id: eventId,
        threadId: turn.threadId,
        type: "agent.tool_result",
        payload: splice({ tool_use_id: step.eventId }, result),
      });
    }
  }
}
