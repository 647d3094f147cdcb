import { z } from "@hono/zod-openapi";
import { Metadata, notBuilt, Timestamp } from "./schema.ts";
import { type ResolvedTool, Tools } from "./tools.ts";

const Effort = z.enum(["low", "medium", "high", "xhigh", "max"]);

export const ModelConfig = z
  .union([
    z.string().min(1).max(256),
    z.strictObject({
      id: z.string().min(1).max(256),
      effort: z.union([Effort, z.strictObject({ type: Effort })]).nullish(),
      speed: notBuilt("model speeds", "null"),
      inference_geo: notBuilt("inference regions", "null"),
    }),
  ])
  .openapi("ModelConfig", { description: "A model id, or an object with the id and the effort (default high)." });

/** Body of `POST /v1/agents`. */
export const CreateAgent = z
  .strictObject({
    name: z.string().min(1).max(255),
    model: ModelConfig,
    system: z.string().max(100_000).nullish(),
    description: z.string().max(2048).nullish(),
    tools: Tools.nullish(),
    mcp_servers: notBuilt("MCP servers", "array"),
    skills: notBuilt("skills", "array"),
    multiagent: notBuilt("multi-agent rosters", "null"),
    metadata: Metadata.nullish(),
    execution_identity: notBuilt("execution identities", "null"),
  })
  .openapi("CreateAgent");

export type CreateAgent = z.infer<typeof CreateAgent>;
export type ModelConfig = z.infer<typeof ModelConfig>;

/** What a version of an agent pins: the definition with every default resolved. */
export interface AgentDefinition {
  readonly name: string;
  readonly description: string | null;
  readonly system: string | null;
  readonly model: { readonly id: string; readonly effort: { readonly type: z.infer<typeof Effort> } };
  readonly tools: readonly ResolvedTool[];
  readonly mcp_servers: readonly unknown[];
  readonly skills: readonly unknown[];
  readonly multiagent: null;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Agent as the API answers it. */
export const Agent = z
  .object({
    id: z.string(),
    type: z.literal("agent"),
    name: z.string(),
    description: z.string().nullable(),
    system: z.string().nullable(),
    model: z.object({ id: z.string(), effort: z.object({ type: Effort }) }),
    tools: z.array(z.unknown()),
    mcp_servers: z.array(z.unknown()),
    skills: z.array(z.unknown()),
    multiagent: z.null(),
    metadata: Metadata,
    version: z.int().min(1),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Agent");
