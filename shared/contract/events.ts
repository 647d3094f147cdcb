import { z } from "@hono/zod-openapi";
import { SessionAgent } from "./agents.ts";
import { MessageContent, ResultContent } from "./content.ts";
import { Timestamp } from "./schema.ts";
import { SessionUsage } from "./sessions.ts";

/**
 * The events of a session as clients see them: one union, told apart by `type`. `processed_at` is null only for an
 * input that waits for its turn.
 */

function event<Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields, description: string) {
  return z
    .object({ id: z.string(), type: z.literal(type), ...fields, processed_at: Timestamp.nullable() })
    .openapi({ description });
}

const ThreadId = z
  .string()
  .nullish()
  .openapi({ description: "The child thread it comes from; null on the primary thread." });
const IdempotencyKey = z.string().openapi({
  description: "The same at every delivery of the call: hand it to whatever must not do it twice.",
});
const TraceId = z.string().optional().openapi({
  description: "The server's trace of the turn, where it keeps one: write it into your log beside the call.",
});
const AgentText = z.array(z.object({ type: z.literal("text"), text: z.string() }));

const Evaluation = z.discriminatedUnion("type", [
  z.object({ type: z.literal("always_allow") }),
  z.object({ type: z.literal("always_ask") }),
  z.object({
    type: z.literal("auto"),
    evaluated_permission: z.discriminatedUnion("type", [
      z.object({ type: z.literal("allow") }),
      z.object({ type: z.literal("ask"), reason_code: z.string() }),
      z.object({ type: z.literal("deny"), reason_code: z.string() }),
    ]),
  }),
]);

/** The public record of how a call's outcome came about. */
export type Evaluation = z.infer<typeof Evaluation>;

const Permission = {
  evaluated_permission: z.enum(["allow", "ask", "deny"]),
  evaluation: Evaluation.optional().openapi({
    description: "Absent when the call was refused before any policy applied.",
  }),
};

const StopReason = z.discriminatedUnion("type", [
  z.object({ type: z.literal("end_turn") }),
  z.object({ type: z.literal("requires_action"), event_ids: z.array(z.string()) }),
  z.object({ type: z.literal("retries_exhausted") }),
  z.object({ type: z.literal("refusal") }),
]);

const Stop = {
  stop_reason: StopReason,
  stop_details: z.unknown().openapi({ description: "Details of a refusal as the provider gave them; null otherwise." }),
};

const OfThread = { session_thread_id: z.string(), agent_name: z.string() };
const Result = { content: ResultContent.or(z.array(z.unknown())), is_error: z.boolean().optional() };

export const SessionError = z.object({
  type: z.enum([
    "unknown_error",
    "model_overloaded_error",
    "model_rate_limited_error",
    "model_request_failed_error",
    "billing_error",
  ]),
  message: z.string(),
  retry_status: z.object({ type: z.enum(["retrying", "exhausted", "terminal"]) }),
});

export const SessionEvent = z
  .discriminatedUnion("type", [
    event(
      "user.message",
      { content: MessageContent },
      "A person's message. Starts a turn, or waits for the one that runs.",
    ),
    event("user.interrupt", { session_thread_id: ThreadId }, "Ends the running turn with an idle end_turn."),
    event(
      "user.tool_confirmation",
      {
        tool_use_id: z.string(),
        result: z.enum(["allow", "deny"]),
        deny_message: z.string().optional(),
        session_thread_id: ThreadId,
      },
      "A person's decision about a call that asked.",
    ),
    event(
      "user.tool_result",
      { tool_use_id: z.string(), ...Result, session_thread_id: ThreadId },
      "A worker's result, or the server's own for a call that was closed.",
    ),
    event(
      "user.custom_tool_result",
      { custom_tool_use_id: z.string(), ...Result, session_thread_id: ThreadId },
      "The application's result, or the server's own for a call that was closed.",
    ),
    event("agent.message", { content: AgentText }, "The text of one model response."),
    event("agent.thinking", {}, "The model is thinking; the content is never shown."),
    event(
      "agent.tool_use",
      {
        name: z.string(),
        input: z.unknown(),
        ...Permission,
        idempotency_key: IdempotencyKey,
        trace_id: TraceId,
        session_thread_id: ThreadId,
      },
      "A call of a built-in tool.",
    ),
    event(
      "agent.tool_result",
      { tool_use_id: z.string(), ...Result },
      "A result made by the server, such as a refusal.",
    ),
    event(
      "agent.custom_tool_use",
      {
        name: z.string(),
        input: z.unknown(),
        idempotency_key: IdempotencyKey,
        trace_id: TraceId,
        session_thread_id: ThreadId,
      },
      "A call that the application must answer.",
    ),
    event("session.status_running", {}, "Work begins or goes on."),
    event("session.status_idle", Stop, "The turn is over, or waits. Always the last event of a turn."),
    event("session.status_rescheduled", {}, "The provider failed; the server tries again by itself."),
    event("session.status_terminated", {}, "Archived, or broken beyond repair."),
    event(
      "session.updated",
      {
        title: z.string().nullish(),
        metadata: z.record(z.string(), z.string()).optional(),
        agent: SessionAgent.optional(),
      },
      "What an update changed; only changed fields are present.",
    ),
    event(
      "session.error",
      { error: SessionError },
      "A problem during execution; retry_status says what the server does about it.",
    ),
    event("session.usage", { usage: SessionUsage }, "Written just before every session.status_idle."),
    event("session.thread_status_running", OfThread, "As session.status_running, of one thread."),
    event("session.thread_status_idle", { ...OfThread, ...Stop }, "As session.status_idle, of one thread."),
    event("session.thread_status_rescheduled", OfThread, "As session.status_rescheduled, of one thread."),
    event("session.thread_status_terminated", OfThread, "As session.status_terminated, of one thread."),
    event("span.model_request_start", {}, "A request to the model begins."),
    event(
      "span.model_request_end",
      {
        model_request_start_id: z.string(),
        is_error: z.boolean().nullable(),
        model_usage: z.object({
          input_tokens: z.int(),
          output_tokens: z.int(),
          cache_read_input_tokens: z.int(),
          cache_creation_input_tokens: z.int(),
        }),
      },
      "Always follows its start, whatever happened.",
    ),
  ])
  .openapi("SessionEvent");

/** On streams only, never stored: the session is gone. */
export const SESSION_DELETED = "session.deleted";
