import { z } from "@hono/zod-openapi";
import { Agent } from "./agents.ts";
import { ClientEvent } from "./client-events.ts";
import { Metadata, notBuilt, Timestamp, unsupported } from "./schema.ts";

const AgentReference = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("agent"), id: z.string(), version: z.int().min(1).optional() }),
  z
    .looseObject({ type: z.literal("agent_with_overrides") })
    .refine(() => false, unsupported("agent overrides", "agent_with_overrides is not supported by this server yet")),
]);

/** Body of `POST /v1/sessions`. */
export const CreateSession = z
  .strictObject({
    agent: z
      .union([z.string().min(1), AgentReference])
      .openapi({ description: 'An agent id (its newest version) or {type:"agent", id, version?}.' }),
    environment_id: z.string().min(1),
    title: z.string().max(500).nullish(),
    metadata: Metadata.nullish(),
    vault_ids: notBuilt("vaults", "array"),
    resources: notBuilt("session resources", "array"),
    initial_events: z
      .array(
        ClientEvent.refine((event) => event.type === "user.message", {
          message: "initial_events may hold user.message only",
        }),
      )
      .max(50)
      .nullish(),
    budget: notBuilt("budgets", "null"),
  })
  .openapi("CreateSession");
export type CreateSession = z.infer<typeof CreateSession>;

export const SessionStatus = z.enum(["idle", "running", "rescheduling", "terminated"]);
export type SessionStatus = z.infer<typeof SessionStatus>;

export const SessionUsage = z
  .object({
    input_tokens: z.int(),
    output_tokens: z.int(),
    cache_read_input_tokens: z.int(),
    cache_creation: z.object({ ephemeral_5m_input_tokens: z.int(), ephemeral_1h_input_tokens: z.int() }),
    active_seconds: z.number(),
    server_tool_use: z.object({ web_search_requests: z.int(), web_fetch_requests: z.int() }),
  })
  .openapi("SessionUsage");
export type SessionUsage = z.infer<typeof SessionUsage>;

const SessionAgent = Agent.omit({ metadata: true, created_at: true, updated_at: true, archived_at: true }).openapi(
  "SessionAgent",
);

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
    stats: z.object({ active_seconds: z.number(), duration_seconds: z.number() }),
    outcome_evaluations: z.array(z.unknown()),
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Timestamp.nullable(),
  })
  .openapi("Session");
export type Session = z.infer<typeof Session>;
