import { z } from "@hono/zod-openapi";
import { Metadata, MetadataPatch, notBuilt, orNull, Timestamp, unsupported } from "./schema.ts";
import { AnsweredTool, type ResolvedTool, Tools } from "./tools.ts";

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
export type ModelConfig = z.infer<typeof ModelConfig>;

const McpServer = z
  .strictObject({
    type: z.literal("url"),
    name: z.string().min(1).max(255),
    url: z.url({ protocol: /^https?$/, error: "must be an http or https URL" }).max(2048),
  })
  .openapi("McpServer");
export type McpServer = z.infer<typeof McpServer>;

export const McpServers = z
  .array(McpServer)
  .max(20, "an agent has at most 20 MCP servers")
  .superRefine((servers, context) => {
    for (const [index, server] of servers.entries()) {
      if (servers.findIndex((other) => other.name === server.name) !== index) {
        context.addIssue({ code: "custom", path: [index, "name"], message: `${server.name} is defined twice` });
      }
    }
  });

/** Whose rights runs carry: the service's own, which is the default; a role of the customer's is not built yet. */
const ExecutionIdentity = z
  .strictObject({ type: z.literal("service_account") })
  .or(
    z
      .looseObject({ type: z.literal("aws_role") })
      .refine(
        () => false,
        unsupported("execution identities", "execution identities are not supported by this server yet"),
      ),
  )
  .or(z.null())
  .optional();

const Name = z.string().min(1).max(255);
const System = z.string().max(100_000);
const Description = z.string().max(2048);

/** Body of `POST /v1/agents`. */
export const CreateAgent = z
  .strictObject({
    name: Name,
    model: ModelConfig,
    system: System.nullish(),
    description: Description.nullish(),
    tools: orNull(Tools),
    mcp_servers: orNull(McpServers),
    skills: notBuilt("skills", "array"),
    multiagent: notBuilt("multi-agent rosters", "null"),
    metadata: orNull(Metadata),
    execution_identity: ExecutionIdentity,
  })
  .openapi("CreateAgent");
export type CreateAgent = z.infer<typeof CreateAgent>;

/** Body of `POST /v1/agents/{id}`: what is left out stays; null clears what can be empty; arrays are replaced whole. */
export const UpdateAgent = z
  .strictObject({
    version: z
      .int()
      .min(1)
      .optional()
      .openapi({ description: "The version that the change is based on; 409 when it is not the newest." }),
    name: Name.optional(),
    model: ModelConfig.optional(),
    system: System.nullish(),
    description: Description.nullish(),
    tools: orNull(Tools),
    mcp_servers: orNull(McpServers),
    skills: notBuilt("skills", "array"),
    multiagent: notBuilt("multi-agent rosters", "null"),
    metadata: orNull(MetadataPatch),
    execution_identity: ExecutionIdentity,
  })
  .openapi("UpdateAgent");
export type UpdateAgent = z.infer<typeof UpdateAgent>;

/** What a version of an agent pins: the definition with every default resolved. */
export interface AgentDefinition {
  readonly name: string;
  readonly description: string | null;
  readonly system: string | null;
  readonly model: { readonly id: string; readonly effort: { readonly type: z.infer<typeof Effort> } };
  readonly tools: readonly ResolvedTool[];
  readonly mcp_servers: readonly McpServer[];
  readonly skills: readonly never[];
  readonly multiagent: null;
  readonly execution_identity: { readonly type: "service_account" };
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
    tools: z.array(AnsweredTool),
    mcp_servers: z.array(McpServer),
    skills: z.array(z.unknown()),
    multiagent: z.null(),
    execution_identity: z.object({ type: z.literal("service_account") }),
    metadata: Metadata,
    version: z.int().min(1),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Agent");
/** An agent; its type is the definition's, not the schema's, so that it may be pinned without a cast. */
export interface Agent extends AgentDefinition {
  readonly id: string;
  readonly type: "agent";
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly archived_at: string | null;
}

/** The copy of an agent that a session carries: the agent without what belongs to the agent's own life. */
export const SessionAgent = Agent.omit({
  metadata: true,
  created_at: true,
  updated_at: true,
  archived_at: true,
}).openapi("SessionAgent");
export type SessionAgent = Omit<Agent, "metadata" | "created_at" | "updated_at" | "archived_at">;
