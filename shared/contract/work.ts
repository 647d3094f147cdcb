import { z } from "@hono/zod-openapi";
import { MetadataPatch, Timestamp } from "./schema.ts";

export const WorkState = z.enum(["queued", "starting", "active", "stopping", "stopped"]);
export type WorkState = z.infer<typeof WorkState>;

/**
 * What an item is for.
 *
 * `session`: serve that session. `healthcheck`: show that this worker can launch, reach the API and hold a lease. A
 * worker answers a health check with the calls that it makes for every item, and only its tools stay away:
 *
 * 1. poll and ack, as always;
 * 2. the first heartbeat with the item's own token, from wherever its tools would run;
 * 3. launch what a session would be launched in, and run a command that does nothing;
 * 4. one more heartbeat, so that the lease is seen to last;
 * 5. `stop {"force":true}`: all is well; or `fail {"message":…}`: it is not, and the operator reads why.
 *
 * A worker that does not know the type, as the official SDKs' helpers do not, stops the item at once with the item's
 * token: the check then tells that it launched and reached the API, and that no lease was tried.
 */
const WorkData = z.discriminatedUnion("type", [
  z.object({ type: z.literal("session"), id: z.string() }),
  z.object({ type: z.literal("healthcheck"), id: z.string() }),
]);

/** A work item as a worker sees it. `secret` is set in the answer to a poll only. */
export const Work = z
  .object({
    id: z.string(),
    type: z.literal("work"),
    environment_id: z.string(),
    state: WorkState,
    data: WorkData,
    metadata: z.record(z.string(), z.string()),
    secret: z
      .string()
      .nullable()
      .openapi({ description: "Base64url of JSON {sessions_token}; valid for this claim only, from the ack on." }),
    created_at: Timestamp,
    acknowledged_at: Timestamp.nullable(),
    started_at: Timestamp.nullable(),
    latest_heartbeat_at: Timestamp.nullable(),
    stop_requested_at: Timestamp.nullable(),
    stopped_at: Timestamp.nullable(),
  })
  .openapi("Work");
export type Work = z.infer<typeof Work>;

/** Body of `POST …/work/{id}`: values set their keys, null removes them. */
export const UpdateWork = z.strictObject({ metadata: MetadataPatch.nullish() }).openapi("UpdateWork");

/** Body of `POST …/work/{id}/stop`. */
export const StopWork = z.strictObject({ force: z.boolean().nullish() }).openapi("StopWork");

/** Body of `POST …/work/{id}/fail`: what the session's `session.error` tells its people, 1 to 1,000 characters. */
export const FailWork = z.strictObject({ message: z.string().min(1).max(1000) }).openapi("FailWork");

export const WorkHeartbeat = z
  .object({
    type: z.literal("work_heartbeat"),
    last_heartbeat: z.string(),
    lease_extended: z.boolean(),
    state: WorkState,
    ttl_seconds: z.int().openapi({ description: "How long the lease lasts from now: the TTL asked for, 10 to 300." }),
  })
  .openapi("WorkHeartbeat");
export type WorkHeartbeat = z.infer<typeof WorkHeartbeat>;

export const WorkQueueStats = z
  .object({
    type: z.literal("work_queue_stats"),
    depth: z.int().openapi({ description: "Items that wait to be claimed." }),
    pending: z.int().openapi({ description: "Items that were handed to a worker and not acknowledged yet." }),
    oldest_queued_at: Timestamp.nullable().openapi({ description: "Of both; null when there is none." }),
    workers_polling: z
      .int()
      .nullable()
      .openapi({ description: "Workers that polled with an Anthropic-Worker-ID in the last 30 s." }),
  })
  .openapi("WorkQueueStats");
export type WorkQueueStats = z.infer<typeof WorkQueueStats>;

/** Body of `POST /v1/environments/{id}/healthcheck`. The wait stays below API Gateway's limit of 29 s. */
export const StartHealthcheck = z
  .strictObject({
    wait_ms: z
      .int()
      .min(1000)
      .max(20_000)
      .default(15_000)
      .openapi({ description: "How long a worker has, in milliseconds." }),
  })
  .openapi("StartHealthcheck");

/** How a worker stood the test. */
export const Healthcheck = z
  .object({
    type: z.literal("healthcheck"),
    id: z.string(),
    environment_id: z.string(),
    work_id: z.string(),
    status: z.enum(["healthy", "skipped", "failed", "timed_out"]).openapi({
      description:
        "healthy: a worker launched, reached the API and held a lease. skipped: it launched and reached the API, but does not know health checks. failed: it said so, or its lease ran out. timed_out: the wait was over first.",
    }),
    launched: z.boolean().openapi({ description: "A worker claimed the item and acknowledged it." }),
    reached_api: z.boolean().openapi({ description: "What it launched called the API." }),
    held_lease: z.boolean().openapi({ description: "Its heartbeat was accepted." }),
    message: z.string().openapi({ description: "What this means and what to do about it." }),
    workers_polling: z.int().nullable(),
    created_at: Timestamp,
    ended_at: Timestamp,
  })
  .openapi("Healthcheck");
export type Healthcheck = z.infer<typeof Healthcheck>;
