import { z } from "@hono/zod-openapi";
import { MessageContent, ResultContent, TextBlock } from "./content.ts";
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

/** Instructions in the middle of a conversation. Taken only where the model endpoint's profile says that it can. */
const SystemMessage = z.strictObject({
  type: z.literal("system.message"),
  content: z.array(TextBlock).min(1).max(1000),
});

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
export const SendEvents = z
  .strictObject({ events: z.array(ClientEvent).min(1).max(100) })
  .superRefine(({ events }, context) => {
    const place = events.findIndex((event) => event.type === "system.message");
    if (place === -1) {
      return;
    }
    const before = events[place - 1]?.type;
    const issue = (message: string) => context.addIssue({ code: "custom", path: ["events", place], message });
    if (place !== events.length - 1) {
      issue("a system.message must be the last event of the request");
    } else if (before === undefined || !FOLLOWED_BY_SYSTEM.has(before)) {
      issue("a system.message must directly follow a user.message or a tool result");
    }
  })
  .openapi("SendEvents");

const FOLLOWED_BY_SYSTEM = new Set<string>(["user.message", "user.tool_result", "user.custom_tool_result"]);

export type SystemMessage = z.infer<typeof SystemMessage>;
export type UserMessage = z.infer<typeof UserMessage>;
export type UserInterrupt = z.infer<typeof UserInterrupt>;
export type UserToolConfirmation = z.infer<typeof UserToolConfirmation>;
export type UserToolResult = z.infer<typeof UserToolResult>;
export type UserCustomToolResult = z.infer<typeof UserCustomToolResult>;

/** The events that pass admission; the refused kinds never come so far. */
export type AcceptedEvent =
  | UserMessage
  | UserInterrupt
  | UserToolConfirmation
  | UserToolResult
  | UserCustomToolResult
  | SystemMessage;
