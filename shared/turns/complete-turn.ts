import type { EndOutput, FailTurnInput, TurnRef } from "../../statemachines/turn-payload.ts";
import type { Transaction } from "../db/transaction.ts";
import { inTransaction } from "../db/transaction.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import type { Product, TurnOutcome } from "../product.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { endFailedTurn } from "./end-failed-turn.ts";
import { endTurn } from "./end-turn.ts";
import { latestRound } from "./rounds.ts";
import { routeStop } from "./stop-reason.ts";
import { type LockedTurn, lockTurn } from "./turn-row.ts";

/** The handler of state CompleteTurn: the turn's answer is whole; the thread goes on or stands idle. */
export function completeTurn(product: Product, ref: TurnRef): Promise<EndOutput> {
  return finish(product, ref, "completed", async (transaction, unit, { turn }) => {
    const round = await latestRound(transaction, turn.id);
    const routed = routeStop(round?.stopReason ?? null, round?.stopDetails ?? null, 0);
    const reason = routed.next === "end" ? routed.idle : ({ type: "end_turn" } as const);
    return endTurn(transaction, unit, turn, { state: "completed", reason, queued: "start_next" });
  });
}

/**
 * The handler of state FailTurn: something of ours went wrong for longer than the retries last. The turn ends
 * exhausted and idle, never terminated, with an error that a client can see; the session stays usable.
 */
export function failTurn(product: Product, input: FailTurnInput): Promise<EndOutput> {
  const ref = { turnId: input.turnId, segment: input.segment };
  return finish(product, ref, "failed", (transaction, unit, { turn }) => {
    product.log.error("A turn failed and is ended.", { turn_id: turn.id, segment: input.segment, error: input.error });
    return endFailedTurn(transaction, unit, turn);
  });
}

async function finish(
  product: Product,
  ref: TurnRef,
  outcome: TurnOutcome,
  end: (transaction: Transaction, unit: SessionUnit, locked: LockedTurn) => Promise<OutboxRow[]>,
): Promise<EndOutput> {
  const finished = await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null || !locked.owned) {
      return null;
    }
    const unit = new SessionUnit(transaction, locked.session);
    const outbox = await end(transaction, unit, locked);
    await unit.flush();
    return { sessionId: locked.session.id, outbox };
  });
  if (finished !== null) {
    product.turnEnded?.(outcome);
    void product.live.publish(finished.sessionId, { type: "wake" });
    await relayAfterCommit(product, finished.outbox);
  }
  return { ...ref, next: "stop" };
}
