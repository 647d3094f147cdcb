import { z } from "@hono/zod-openapi";
import { Metadata, MetadataPatch, orNull, Timestamp, unsupported } from "./schema.ts";

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

const Name = z.string().min(1).max(255);
const Description = z.string().max(2048);
const Scope = z.enum(["organization", "account"]);

/** Body of `POST /v1/environments`. `config` defaults to self_hosted, the one kind that this server runs. */
export const CreateEnvironment = z
  .strictObject({
    name: Name,
    config: z.discriminatedUnion("type", [SelfHosted, Cloud]).nullish(),
    description: Description.nullish(),
    metadata: orNull(Metadata),
    scope: Scope.nullish(),
  })
  .openapi("CreateEnvironment");
export type CreateEnvironment = z.infer<typeof CreateEnvironment>;

/**
 * Body of `POST /v1/environments/{id}`. The kind of an environment never changes. In metadata null and the empty string
 * both remove a key, as existing clients send either.
 */
export const UpdateEnvironment = z
  .strictObject({
    name: Name.optional(),
    config: z.looseObject({ type: z.enum(["self_hosted", "cloud"]) }).nullish(),
    description: Description.nullish(),
    metadata: orNull(MetadataPatch),
    scope: Scope.nullish(),
  })
  .openapi("UpdateEnvironment");
export type UpdateEnvironment = z.infer<typeof UpdateEnvironment>;

/** Environment as the API answers it. */
export const Environment = z
  .object({
    id: z.string(),
    type: z.literal("environment"),
    name: z.string(),
    description: z.string().nullable(),
    config: SelfHosted,
    metadata: Metadata,
    scope: Scope.optional(),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Environment");
export type Environment = z.infer<typeof Environment>;

export const DeletedEnvironment = z
  .object({ id: z.string(), type: z.literal("environment_deleted") })
  .openapi("DeletedEnvironment");
