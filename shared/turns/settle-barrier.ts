import type { Transaction } from "../db/transaction.ts";
import { stepsOfRound } from "../journal/tool-steps.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import { actionsOfSteps, waitingEventIds } from "../permissions/barrier.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import { resume } from "./await-actions.ts";
import { latestRound } from "./rounds.ts";
import type { TurnRow } from "./turn-row.ts";

/** The events that the turn's barrier still waits for. */
export async function waitingFor(transaction: Transaction, turn: TurnRow): Promise<string[]> {
  const round = await latestRound(transaction, turn.id);
  const steps = round === null ? [] : await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
  return waitingEventIds(await actionsOfSteps(transaction, turn.sessionId, steps));
}

/**
 * After parts of a barrier were resolved: the turn goes on when nothing is left, and says again what it waits for when
 * something else is. `cause` names what resolved them: the status events' ids derive from it.
 */
export async function settleBarrier(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  params: { readonly waitingBefore: readonly string[]; readonly cause: string },
): Promise<OutboxRow[]> {
  const waiting = await waitingFor(transaction, turn);
  if (waiting.length === 0) {
    unit.run(turn.threadId, params.cause);
    return resume(transaction, turn);
  }
  if (waiting.join() !== params.waitingBefore.join()) {
    unit.idle(turn.threadId, params.cause, { type: "requires_action", eventIds: waiting });
  }
  return [];
}
