import { z } from "@hono/zod-openapi";
import { Timestamp } from "./schema.ts";

/**
 * A key with which workers of one environment poll. The wire contract of existing clients has no calls for these (the
 * hosted service mints them in its console); these follow its style. The secret is in the answers to create and rotate
 * and nowhere else: the server keeps its digest.
 */
const fields = {
  id: z.string(),
  type: z.literal("environment_key"),
  environment_id: z.string(),
  name: z.string(),
  created_at: Timestamp,
  rotated_at: Timestamp.nullable(),
  revoked_at: Timestamp.nullable().openapi({ description: "From then on the key opens nothing." }),
} as const;

export const EnvironmentKey = z.object(fields).openapi("EnvironmentKey");
export type EnvironmentKey = z.infer<typeof EnvironmentKey>;

/** The key with its secret, shown this once. */
export const EnvironmentKeyWithSecret = z
  .object({ ...fields, secret: z.string().openapi({ description: "Shown this once; give it to the worker." }) })
  .openapi("EnvironmentKeyWithSecret");
export type EnvironmentKeyWithSecret = z.infer<typeof EnvironmentKeyWithSecret>;

export const KeyName = z.string().min(1).max(255);

/** Body of `POST /v1/environments/{id}/keys`. */
export const CreateEnvironmentKey = z.strictObject({ name: KeyName }).openapi("CreateEnvironmentKey");

/** How long a rotated secret may live beside its successor, in seconds: a day at most. */
export const Overlap = z.int().min(0).max(86_400).default(0);

/** Body of `POST /v1/environments/{id}/keys/{key_id}/rotate`; may be left out. */
export const RotateEnvironmentKey = z
  .strictObject({
    overlap_seconds: Overlap.openapi({
      description: "How long the old secret goes on to work, so that workers can be given the new one first.",
    }),
  })
  .openapi("RotateEnvironmentKey");
