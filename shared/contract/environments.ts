import { z } from "@hono/zod-openapi";
import { Metadata, Timestamp, unsupported } from "./schema.ts";

const SelfHosted = z.strictObject({ type: z.literal("self_hosted") });
const Cloud = z
  .looseObject({ type: z.literal("cloud") })
  .refine(
    () => false,
    unsupported(
      "cloud environments",
      "cloud environments are not supported: this server runs tools on your own workers; use self_hosted",
    ),
  );

/** Body of `POST /v1/environments`. `config` defaults to self_hosted, the one kind that this server runs. */
export const CreateEnvironment = z
  .strictObject({
    name: z.string().min(1).max(255),
    config: z.discriminatedUnion("type", [SelfHosted, Cloud]).nullish(),
    description: z.string().max(2048).nullish(),
    metadata: Metadata.nullish(),
    scope: z.enum(["organization", "account"]).nullish(),
  })
  .openapi("CreateEnvironment");
export type CreateEnvironment = z.infer<typeof CreateEnvironment>;

/** Environment as the API answers it. */
export const Environment = z
  .object({
    id: z.string(),
    type: z.literal("environment"),
    name: z.string(),
    description: z.string().nullable(),
    config: SelfHosted,
    metadata: Metadata,
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Environment");
export type Environment = z.infer<typeof Environment>;
