import { z } from "@hono/zod-openapi";
import { MessageContent, ResultContent } from "./content.ts";
import { unsupported } from "./schema.ts";

/** What a client may send to a session. */

const UserMessage = z.strictObject({ type: z.literal("user.message"), content: MessageContent });

const UserInterrupt = z.strictObject({
  type: z.literal("user.interrupt"),
  session_thread_id: z.string().nullish(),
});

const UserToolConfirmation = z
  .strictObject({
    type: z.literal("user.tool_confirmation"),
    tool_use_id: z.string(),
    result: z.enum(["allow", "deny"]),
    deny_message: z.string().min(1).max(10_000).nullish(),
  })
  .refine((event) => event.result === "deny" || event.deny_message == null, {
    path: ["deny_message"],
    message: "deny_message goes with result deny only",
  });

const UserToolResult = z.strictObject({
  type: z.literal("user.tool_result"),
  tool_use_id: z.string(),
  content: ResultContent.nullish(),
  is_error: z.boolean().nullish(),
});

const UserCustomToolResult = z.strictObject({
  type: z.literal("user.custom_tool_result"),
  custom_tool_use_id: z.string(),
  content: ResultContent.nullish(),
  is_error: z.boolean().nullish(),
});

const UserDefineOutcome = z
  .looseObject({ type: z.literal("user.define_outcome") })
  .refine(() => false, unsupported("outcomes", "user.define_outcome is not supported by this server yet"));

const SystemMessage = z
  .looseObject({ type: z.literal("system.message") })
  .refine(() => false, unsupported("system messages", "system.message is not supported by this server yet"));

export const ClientEvent = z
  .discriminatedUnion("type", [
    UserMessage,
    UserInterrupt,
    UserToolConfirmation,
    UserToolResult,
    UserCustomToolResult,
    UserDefineOutcome,
    SystemMessage,
  ])
  .openapi("ClientEvent");

/** Body of `POST /v1/sessions/{id}/events`: 1 to 100 events, all accepted or none. */
export const SendEvents = z.strictObject({ events: z.array(ClientEvent).min(1).max(100) }).openapi("SendEvents");

export type UserMessage = z.infer<typeof UserMessage>;
export type UserInterrupt = z.infer<typeof UserInterrupt>;
export type UserToolConfirmation = z.infer<typeof UserToolConfirmation>;
export type UserToolResult = z.infer<typeof UserToolResult>;
export type UserCustomToolResult = z.infer<typeof UserCustomToolResult>;

/** The events that pass admission; the refused kinds never come so far. */
export type AcceptedEvent = UserMessage | UserInterrupt | UserToolConfirmation | UserToolResult | UserCustomToolResult;
