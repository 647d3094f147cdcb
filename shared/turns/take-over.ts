import type { TurnRef } from "../../statemachines/turn-payload.ts";
import type { Transaction } from "../db/transaction.ts";
import { type OutboxRow, queueStart } from "../outbox/outbox.ts";
import type { Log } from "../ports/log.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { endFailedTurn } from "./end-failed-turn.ts";
import { type LockedTurn, nextSegment } from "./turn-row.ts";

/** Takeovers of one turn; after that whatever kills its executions is in the turn itself. */
const MAX_RECOVERIES = 5;

export interface TakenOver {
  /** What the caller delivers after its commit. */
  readonly outbox: readonly OutboxRow[];
  /** The turn was given up; the caller tells so after its commit. */
  readonly turnFailed: boolean;
}

const LEFT_ALONE: TakenOver = { outbox: [], turnFailed: false };

/**
 * The execution of a turn's current segment is lost: the next segment takes over, at most five times, then the turn
 * fails. The journal says where the turn stood; the old execution, should it live after all, is fenced.
 *
 * The caller holds the session's lock through `locked`. A turn that is not there, that `locked` does not own, or that
 * hibernates (it has no execution to lose), is left alone.
 */
export async function takeOver(transaction: Transaction, locked: LockedTurn | null, log: Log): Promise<TakenOver> {
  if (!locked?.owned || locked.turn.state === "hibernated") {
    return LEFT_ALONE;
  }
  const { turn } = locked;
  const { rows } = await transaction.query<{ recoveries: number }>(
    "update turns set recoveries = recoveries + 1 where id = $1 returning recoveries",
    [turn.id],
  );
  const ref: TurnRef = { turnId: turn.id, segment: turn.segment };
  if ((rows[0]?.recoveries ?? 0) > MAX_RECOVERIES) {
    log.error("A turn lost its executions too often and was ended.", { turn_id: ref.turnId, segment: ref.segment });
    const unit = new SessionUnit(transaction, locked.session);
    const outbox = await endFailedTurn(transaction, unit, turn);
    await unit.flush();
    return { outbox, turnFailed: true };
  }
  const segment = await nextSegment(transaction, turn.id);
  log.warn("An execution was lost; the turn's next segment takes over.", { turn_id: turn.id, segment });
  const { workspaceId, sessionId } = turn;
  const start = await queueStart(transaction, { workspaceId, sessionId, turnId: turn.id, segment });
  return { outbox: [start], turnFailed: false };
}
