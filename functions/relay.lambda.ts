import { z } from "zod";
import { dropOldAnswers } from "../shared/http/idempotency.ts";
import { figures } from "../shared/operations/figures.ts";
import { relayDue } from "../shared/outbox/relay.ts";
import { DEFAULT_PURGE, purgeDeleted } from "../shared/sessions/purge.ts";
import { executionLost, reconcile } from "../shared/turns/reconcile.ts";
import { environmentsWithQueuedWork } from "../shared/work/queue-stats.ts";
import { tendWork } from "../shared/work/upkeep.ts";
import { invocation, type LambdaContext } from "./invocation.ts";
import { count, seconds } from "./observation.ts";
import { product } from "./product.ts";

/** How many rows are taken up at once. */
const BATCH = 100;
/** Enough for one more batch, and for what follows. */
const LAST_BATCH_MS = 25_000;
/** A turn that has not moved for this long is looked at. */
const RECONCILE_AFTER_SECONDS = 600;

/** Who calls: each sends an event of its own form. */
const Call = z.union([
  /** The first net: a delayed message from an invocation that could not say something to Step Functions. */
  z.object({ Records: z.array(z.object({ eventSource: z.literal("aws:sqs") })).min(1) }),
  /** EventBridge: an execution has ended otherwise than by success. Its input may be left out, its name never is. */
  z.object({
    source: z.literal("aws.states"),
    detail: z.object({ name: z.string(), status: z.enum(["FAILED", "TIMED_OUT", "ABORTED"]) }),
  }),
  /** The schedule. */
  z.strictObject({ task: z.literal("upkeep") }),
]);

/**
 * Looks after what is on its way to Step Functions: delivers what a crash or an outage left in the outbox, and takes
 * over turns whose execution is gone. On its schedule it also tends the queue of work, removes what has
 * had its time, and tells the figures that only the database knows.
 */
export const handler = invocation(async (event: unknown, context) => {
  const call = Call.parse(event);
  if ("detail" in call) {
    await product().quiet?.note();
    const execution = /^(?<turnId>.+)-(?<segment>\d+)$/.exec(call.detail.name)?.groups;
    if (execution !== undefined) {
      await executionLost(product(), {
        turnId: String(execution["turnId"]),
        segment: Number(execution["segment"]),
      });
    }
    return {};
  }
  if ("task" in call && (await nothingToTend())) {
    return {};
  }
  const delivered = await relayAll(context);
  if (!("task" in call)) {
    return { delivered };
  }
  const takenOver = await reconcile(product(), { idleSeconds: RECONCILE_AFTER_SECONDS });
  const { database } = product();
  await tendWork(product());
  await purgeDeleted(database, DEFAULT_PURGE);
  await dropOldAnswers(database);
  await tellFigures();
  await product().quiet?.tellQueued(await environmentsWithQueuedWork(database));
  return { delivered, takenOver };
});

/** All is quiet, and an upkeep has told since what work is queued: polls of those environments wake the database. */
async function nothingToTend(): Promise<boolean> {
  const { quiet } = product();
  return quiet !== null && (await quiet.isQuiet()) && (await quiet.queued()) !== null;
}

async function relayAll(context: LambdaContext): Promise<number> {
  let delivered = 0;
  let batch: number;
  do {
    batch = await relayDue(product(), BATCH);
    delivered += batch;
  } while (batch === BATCH && context.getRemainingTimeInMillis() > LAST_BATCH_MS);
  return delivered;
}

async function tellFigures(): Promise<void> {
  const { active, outbox, parked, work } = await figures(product().database);
  count("OutboxRows", outbox.count);
  seconds("OldestOutboxRow", outbox.oldestSeconds);
  count("TurnsParked", parked.count);
  seconds("OldestParkedTurn", parked.oldestSeconds);
  count("WorkQueued", work.count);
  seconds("OldestQueuedWork", work.oldestSeconds);
  if (active > 0 || outbox.count > 0) {
    // Something is still to be done: the database may not pause under it.
    await product().quiet?.note();
  }
}
