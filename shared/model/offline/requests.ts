/** What the offline rules look at in a Messages request. Nothing here is sent on, so parsed values will do. */

export interface OfferedTool {
  readonly name: string;
  readonly schema: JsonSchema;
}

/** As much of JSON Schema as a plausible input needs. */
export interface JsonSchema {
  readonly type?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
}

/** A call that the model has made since the instruction, and what came of it. */
export interface PastCall {
  readonly name: string;
  readonly result: string;
  readonly isError: boolean;
}

export interface OfflineRequest {
  readonly model: string;
  /** The system text; an empty string when there is none. */
  readonly system: string;
  readonly maxTokens: number;
  /** Those that the client answers; server tools (`web_search`) need a real provider. */
  readonly tools: readonly OfferedTool[];
  /** The text of the last user message that has any. */
  readonly instruction: string;
  readonly calls: readonly PastCall[];
}

interface WireBlock {
  readonly type?: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly tool_use_id?: string;
  readonly content?: string | readonly WireBlock[];
  readonly is_error?: boolean;
}

interface WireMessage {
  readonly role?: string;
  readonly content?: string | readonly WireBlock[];
}

interface WireRequest {
  readonly model?: string;
  readonly system?: unknown;
  readonly max_tokens?: number;
  readonly tools?: readonly { readonly type?: string; readonly name: string; readonly input_schema?: JsonSchema }[];
  readonly tool_choice?: { readonly type?: string };
  readonly messages?: readonly WireMessage[];
}

export function readRequest(body: string): OfflineRequest {
  const wire = JSON.parse(body) as WireRequest;
  const messages = wire.messages ?? [];
  const asked = messages.findLastIndex((message) => message.role === "user" && textOf(message.content).trim() !== "");
  const since = messages.slice(asked + 1).flatMap((message) => blocksOf(message.content));
  const results = new Map(since.map((block) => [block.tool_use_id, block]));
  return {
    model: wire.model ?? "offline",
    system: typeof wire.system === "string" ? wire.system : "",
    maxTokens: wire.max_tokens ?? Number.MAX_SAFE_INTEGER,
    tools: wire.tool_choice?.type === "none" ? [] : clientTools(wire),
    instruction: textOf(messages[asked]?.content).trim(),
    calls: since
      .filter((block) => block.type === "tool_use")
      .map((call) => {
        const result = results.get(call.id);
        return {
          name: call.name ?? "",
          result: textOf(result?.content),
          isError: result?.is_error ?? result === undefined,
        };
      }),
  };
}

function clientTools(wire: WireRequest): OfferedTool[] {
  return (wire.tools ?? [])
    .filter((tool) => tool.input_schema !== undefined)
    .map((tool) => ({ name: tool.name, schema: tool.input_schema ?? {} }));
}

function blocksOf(content: WireMessage["content"]): readonly WireBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
}

function textOf(content: WireMessage["content"]): string {
  return blocksOf(content)
    .filter((block) => block.type === "text")
    .map((block) => block.text ?? "")
    .join("\n");
}
