import { readBlocks } from "../model/content-blocks.ts";
import { ModelError, type ModelResponse } from "../model/model.ts";

/** Refuses a request over the hard ceiling of the session's capability profile, before it is sent. Throws `ModelError`. */
export function assertSendable(body: string, ceilingBytes: number): void {
  if (Buffer.byteLength(body) > ceilingBytes) {
    throw new ModelError(`The conversation has grown over what a model request may hold (${ceilingBytes} bytes).`, {
      type: "model_request_failed_error",
      retryable: false,
      tooLarge: true,
    });
  }
}

/**
 * Refuses a response that could not be stored or answered: tool calls without an id, two with the same one, or a NUL in
 * what must be plain text (PostgreSQL stores none). It counts as a failed request, so that it is repeated a few times
 * and not for ever.
 *
 * Throws `ModelError`.
 */
export function assertUsable(response: ModelResponse): void {
  const calls = readBlocks(response.content).filter(({ type }) => type === "tool_use" || type === "server_tool_use");
  const ids = calls.map((call) => call.id ?? "");
  const plain = [...ids, ...calls.map((call) => call.name ?? ""), response.stopReason ?? "", response.model];
  const broken = ids.includes("") || new Set(ids).size !== ids.length || plain.some((text) => text.includes("\u0000"));
  if (broken) {
    throw new ModelError("The model endpoint answered with tool calls that cannot be told apart.", {
      type: "model_request_failed_error",
      retryable: true,
      requestId: response.requestId,
      usage: response.usage,
    });
  }
}
