import { z } from "@hono/zod-openapi";
import { McpServers, ModelConfig, SessionAgent, type SessionAgent as SessionAgentShape } from "./agents.ts";
import { ClientEvent } from "./client-events.ts";
import { Metadata, MetadataPatch, notBuilt, orNull, Timestamp } from "./schema.ts";
import { Tools } from "./tools.ts";

const AgentReference = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("agent"), id: z.string(), version: z.int().min(1).optional() }),
  z
    .strictObject({
      type: z.literal("agent_with_overrides"),
      id: z.string(),
      version: z.int().min(1).optional(),
      model: ModelConfig.optional(),
      system: z.string().max(100_000).nullish(),
      tools: orNull(Tools),
      mcp_servers: orNull(McpServers),
      skills: notBuilt("skills", "array"),
    })
    .openapi("AgentWithOverrides", {
      description:
        "Left out: inherited. Null or empty: cleared. A value replaces. The model cannot be cleared; another model forgets the effort.",
    }),
]);

const Title = z.string().max(500);

/** Body of `POST /v1/sessions`. */
export const CreateSession = z
  .strictObject({
    agent: z.union([z.string().min(1), AgentReference]).openapi({
      description:
        'An agent id (its newest version), {type:"agent", id, version?}, or {type:"agent_with_overrides", …}.',
    }),
    environment_id: z.string().min(1),
    title: Title.nullish(),
    metadata: orNull(Metadata),
    vault_ids: notBuilt("vaults", "array"),
    resources: notBuilt("session resources", "array"),
    initial_events: z
      .array(
        ClientEvent.refine((event) => event.type === "user.message", {
          message: "initial_events may hold user.message only",
        }),
      )
      .max(50)
      .nullish()
      .openapi({ description: "Accepted with the session, all or none; the session is created running." }),
    budget: notBuilt("budgets", "null"),
  })
  .openapi("CreateSession");
export type CreateSession = z.infer<typeof CreateSession>;
export type AgentOverrides = Extract<z.infer<typeof AgentReference>, { type: "agent_with_overrides" }>;

/** Body of `POST /v1/sessions/{id}`. `agent` replaces the session's tools or servers and needs an idle session. */
export const UpdateSession = z
  .strictObject({
    title: Title.nullish(),
    metadata: orNull(MetadataPatch),
    agent: z.strictObject({ tools: orNull(Tools), mcp_servers: orNull(McpServers) }).optional(),
    budget: notBuilt("budgets", "null"),
    vault_ids: notBuilt("vaults", "array"),
  })
  .openapi("UpdateSession");
export type UpdateSession = z.infer<typeof UpdateSession>;

export const SessionStatus = z.enum(["idle", "running", "rescheduling", "terminated"]);
export type SessionStatus = z.infer<typeof SessionStatus>;

/** Why an idle session stands still. */
export const StopReasonType = z.enum(["end_turn", "requires_action", "retries_exhausted", "refusal"]);

export const SessionUsage = z
  .object({
    input_tokens: z.int(),
    output_tokens: z.int(),
    cache_read_input_tokens: z.int(),
    cache_creation: z.object({ ephemeral_5m_input_tokens: z.int(), ephemeral_1h_input_tokens: z.int() }),
    active_seconds: z.number(),
    server_tool_use: z.object({ web_search_requests: z.int(), web_fetch_requests: z.int() }),
  })
  .openapi("SessionUsage", { description: "Tokens as the provider counted them; seconds with milliseconds." });
export type SessionUsage = z.infer<typeof SessionUsage>;

const SessionStats = z.object({ active_seconds: z.number(), duration_seconds: z.number() });

/** Session as the API answers it. */
export const Session = z
  .object({
    id: z.string(),
    type: z.literal("session"),
    status: SessionStatus,
    title: z.string().nullable(),
    agent: SessionAgent,
    environment_id: z.string(),
    metadata: Metadata,
    resources: z.array(z.unknown()),
    vault_ids: z.array(z.string()),
    budget: z.null(),
    usage: SessionUsage,
    stats: SessionStats,
    outcome_evaluations: z.array(z.unknown()),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Session");
export type Session = Omit<z.infer<typeof Session>, "agent"> & { readonly agent: SessionAgentShape };

export const DeletedSession = z
  .object({ id: z.string(), type: z.literal("session_deleted") })
  .openapi("DeletedSession");

/** A thread as the API answers it. Every session has its primary thread. */
export const Thread = z
  .object({
    id: z.string(),
    type: z.literal("session_thread"),
    session_id: z.string(),
    parent_thread_id: z.string().nullable(),
    agent: SessionAgent,
    status: SessionStatus,
    usage: SessionUsage.nullable(),
    stats: SessionStats.extend({ startup_seconds: z.number() }).nullable(),
    workflow_run_id: z.null(),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Thread");
export type Thread = Omit<z.infer<typeof Thread>, "agent"> & { readonly agent: SessionAgentShape };
