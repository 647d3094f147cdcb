import { dropOldAnswers } from "../shared/http/idempotency.ts";
import { relayDue } from "../shared/outbox/relay.ts";
import { DEFAULT_PURGE, purgeDeleted } from "../shared/sessions/purge.ts";
import { reconcile } from "../shared/turns/reconcile.ts";
import { tendWork } from "../shared/work/upkeep.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

/** How many rows are taken up at once. */
const BATCH = 100;
/** Enough for one more batch, and for what follows. */
const LAST_BATCH_MS = 25_000;
/** A turn that has not moved for this long is looked at. */
const RECONCILE_AFTER_SECONDS = 600;

/**
 * On a schedule: delivers what a crash or an outage left in the outbox, takes over turns whose execution is gone, tends
 * the queue of work, and removes what has had its time.
 */
export const handler = invocation(async (_event: unknown, context) => {
  const { database } = product();
  let delivered = 0;
  let batch: number;
  do {
    batch = await relayDue(product(), BATCH);
    delivered += batch;
  } while (batch === BATCH && context.getRemainingTimeInMillis() > LAST_BATCH_MS);
  const takenOver = await reconcile(product(), { idleSeconds: RECONCILE_AFTER_SECONDS });
  await tendWork(product());
  await purgeDeleted(database, DEFAULT_PURGE);
  await dropOldAnswers(database);
  return { delivered, takenOver };
});
