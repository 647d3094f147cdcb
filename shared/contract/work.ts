import { z } from "@hono/zod-openapi";
import { Timestamp } from "./schema.ts";

export const WorkState = z.enum(["queued", "starting", "active", "stopping", "stopped"]);
export type WorkState = z.infer<typeof WorkState>;

/** A work item as a worker sees it. `secret` is set in the answer to a poll only. */
export const Work = z
  .object({
    id: z.string(),
    type: z.literal("work"),
    environment_id: z.string(),
    state: WorkState,
    data: z.object({ type: z.literal("session"), id: z.string() }),
    metadata: z.record(z.string(), z.string()),
    secret: z
      .string()
      .nullable()
      .openapi({ description: "Base64url of JSON {sessions_token}; valid for this claim only." }),
    created_at: Timestamp,
    acknowledged_at: Timestamp.nullable(),
    started_at: Timestamp.nullable(),
    latest_heartbeat_at: Timestamp.nullable(),
    stop_requested_at: Timestamp.nullable(),
    stopped_at: Timestamp.nullable(),
  })
  .openapi("Work");
export type Work = z.infer<typeof Work>;

export const WorkHeartbeat = z
  .object({
    type: z.literal("work_heartbeat"),
    last_heartbeat: z.string(),
    lease_extended: z.boolean(),
    state: WorkState,
    ttl_seconds: z.int(),
  })
  .openapi("WorkHeartbeat");
export type WorkHeartbeat = z.infer<typeof WorkHeartbeat>;
