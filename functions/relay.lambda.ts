import { dropOldAnswers } from "../shared/http/idempotency.ts";
import { relayDue } from "../shared/outbox/relay.ts";
import { stopQuietWork } from "../shared/work/stop-quiet.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";

/** How many rows are taken up at once. */
const BATCH = 100;
/** Enough for one more batch. */
const LAST_BATCH_MS = 15_000;

/**
 * On a schedule: delivers what a crash or an outage left in the outbox, lets workers of quiet sessions go, and drops
 * what has outlived its use.
 */
export const handler = invocation(async (_event: unknown, context) => {
  let delivered = 0;
  let batch: number;
  do {
    batch = await relayDue(product(), BATCH);
    delivered += batch;
  } while (batch === BATCH && context.getRemainingTimeInMillis() > LAST_BATCH_MS);
  await stopQuietWork(product().database);
  await dropOldAnswers(product().database);
  return { delivered };
});
