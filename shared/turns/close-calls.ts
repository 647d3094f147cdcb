import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { isSettled, settleStep, stepsOfRound, type ToolStep } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { actionsOfSteps, type PendingAction, resolveAction } from "../permissions/barrier.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/** The published calls of the turn's last round that have no result; none while the round is not published. */
export async function openCalls(transaction: Transaction, turn: TurnRow): Promise<ToolStep[]> {
  const round = await latestRound(transaction, turn.id);
  if (round?.state !== "gated") {
    return [];
  }
  const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
  return steps.filter((step) => !isSettled(step));
}

/**
 * Closes every published call that has no result, in the transaction that ends its turn. Calls that were never
 * published are dropped: nobody has seen them.
 */
export async function closeOpenCalls(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  why: string,
): Promise<void> {
  await closeCalls(transaction, unit, turn, await openCalls(transaction, turn), why);
}

/** What a call's result says that ended before anybody could begin it. */
const NOT_RUN = "The call was not run: its turn ended before.";

/**
 * Closes these calls, as ambiguous where somebody may have begun them, and resolves what the turn awaited of them. The
 * ledger gets a server-authored result for each: clients that replay history, the official workers among them, run every
 * allowed call that has none. Its id derives from the call, so a repeat cannot add a second. The caller holds the
 * session's lock.
 */
export async function closeCalls(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  calls: readonly ToolStep[],
  why: string,
): Promise<void> {
  const actions = await actionsOfSteps(transaction, turn.sessionId, calls);
  for (const step of calls) {
    const open = actions.filter((one) => isOpenAction(one, step));
    const unbegun = isUnbegun(step, open);
    const content = JSON.stringify([{ type: "text", text: unbegun ? NOT_RUN : why }]);
    const eventId = derivedId("sevt", step.id, "tool_result");
    await settleStep(transaction, {
      stepId: step.id,
      state: unbegun ? "completed" : "ambiguous",
      result: content,
      isError: true,
      resultEventId: eventId,
    });
    for (const action of open) {
      await resolveAction(transaction, {
        sessionId: turn.sessionId,
        eventId: step.eventId,
        need: action.need,
        resolution: "closed",
        resolvedByEventId: eventId,
      });
    }
    const [type, field] = resultOf(step);
    unit.append({
      id: eventId,
      threadId: turn.threadId,
      type,
      payload: splice({ [field]: step.eventId }, { content, is_error: "true" }),
    });
  }
}

/** Whether nobody can have begun the call: a person is still asked about it, or it is ours to start and was not. */
function isUnbegun(step: ToolStep, open: readonly PendingAction[]): boolean {
  return (
    open.some(({ need }) => need === "confirmation") || (step.owner === "platform_managed" && step.state === "prepared")
  );
}

function isOpenAction(action: PendingAction, step: ToolStep): boolean {
  return action.stepId === step.id && action.resolution === null;
}

/** The event that answers a call, and the field that names the call, by who would have answered. */
function resultOf(step: ToolStep): readonly [type: string, field: string] {
  switch (step.owner) {
    case "client_custom":
      return ["user.custom_tool_result", "custom_tool_use_id"];
    case "client_self_hosted":
      return ["user.tool_result", "tool_use_id"];
    default:
      return ["agent.tool_result", "tool_use_id"];
  }
}
