import type { TurnRef } from "../../statemachines/turn-payload.ts";
import { inTransaction } from "../db/transaction.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import type { Product } from "../product.ts";
import { takeOver } from "./take-over.ts";
import { lockTurn } from "./turn-row.ts";

/**
 * The reconciler: brings turns back whose execution is gone.
 *
 * A turn can lose its execution to what the state machine cannot catch (its time limit, its data limit, a failure of
 * FailTurn itself), or to the loss of Step Functions as a whole. The journal says where the turn stood, so the next
 * segment simply takes over; the old one, should it live after all, is fenced.
 */

/** An execution of that turn and segment has ended otherwise than by success. */
export async function executionLost(product: Product, ref: TurnRef): Promise<void> {
  const { outbox, turnFailed } = await inTransaction(product.database, async (transaction) =>
    takeOver(transaction, await lockTurn(transaction, ref), product.log),
  );
  if (turnFailed) {
    product.turnEnded?.("failed");
  }
  await relayAfterCommit(product, outbox);
}

/**
 * Looks for turns that have not moved for `idleSeconds` and asks whether their execution is still there. Turns with a
 * message under way, with a live provider call, or hibernated are none of these. Returns how many were taken over.
 *
 * One look takes up 200. Many more may wait for people, each with an execution that is well: they come after the turns
 * that should be moving, and by lot among themselves, so that none is always passed over.
 */
export async function reconcile(product: Product, params: { readonly idleSeconds: number }): Promise<number> {
  const { rows } = await product.database.query<{ id: string; segment: number }>(
    `select t.id, t.segment from turns t join sessions s on s.id = t.session_id
      where t.state in ('running', 'parked', 'backing_off') and s.deleting_at is null
        and s.last_processed_at <= clock_timestamp() - make_interval(secs => $1)
        and not exists (select 1 from outbox o where o.turn_id = t.id)
        and not exists (select 1 from provider_calls c
                         where c.turn_id = t.id and c.state = 'started' and c.lease_expires_at > clock_timestamp())
      order by t.state = 'parked', random() limit 200`,
    [params.idleSeconds],
  );
  let lost = 0;
  for (const turn of rows) {
    const found = await product.orchestrator.find({ name: `${turn.id}-${turn.segment}` });
    if (found !== "running") {
      await executionLost(product, { turnId: turn.id, segment: turn.segment });
      lost += 1;
    }
  }
  return lost;
}
