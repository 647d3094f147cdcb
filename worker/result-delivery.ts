import type { Log } from "../shared/ports/log.ts";
import { type ApiClient, errorLabel, forbidsRetry, isFatal, statusOf } from "./api-client.ts";
import { backoffMs } from "./backoff.ts";
import type { ToolResult } from "./tools/tool.ts";
import type { Wait } from "./wait.ts";

/**
 * accepted: the server has it. closed: the call had got another answer. refused: no repeat can help. unsent: the time
 * was up.
 */
export type Delivery = "accepted" | "closed" | "refused" | "unsent";

export interface DeliveryOptions {
  readonly client: ApiClient;
  readonly sessionId: string;
  readonly log: Log;
  readonly wait: Wait;
  /** How long to try: as long as the lease may still be ours. */
  readonly windowMs: () => number;
}

/** Sends one call's result, and repeats for as long as that may help. */
export async function deliverResult(
  { client, sessionId, log, wait, windowMs }: DeliveryOptions,
  callId: string,
  result: ToolResult,
  signal: AbortSignal,
): Promise<Delivery> {
  const since = performance.now();
  let toSend = result;
  for (let attempt = 0; ; attempt += 1) {
    if (signal.aborted) return "unsent";
    try {
      await client.beta.sessions.events.send(sessionId, { events: [resultEvent(callId, toSend)] }, { signal });
      return "accepted";
    } catch (error) {
      if (signal.aborted) return "unsent";
      const status = statusOf(error);
      log.warn("the result was not accepted", { session: sessionId, call: callId, error: errorLabel(error), attempt });
      if (status === 409 && forbidsRetry(error)) return "closed";
      if ((status === 400 || status === 413 || status === 422) && toSend === result) {
        // A result that the server cannot take must not leave the session waiting for ever.
        toSend = { text: `The tool has run, but the server refused its result (status ${status}).`, isError: true };
        continue;
      }
      if (isFatal(error)) return "refused";
      const left = windowMs() - (performance.now() - since);
      if (left <= 0) return "unsent";
      await wait(Math.min(backoffMs(attempt, 1_000, 30_000), left), signal);
    }
  }
}

function resultEvent(callId: string, { text, isError }: ToolResult) {
  return {
    type: "user.tool_result" as const,
    tool_use_id: callId,
    is_error: isError,
    // An empty text block is refused.
    content: [{ type: "text" as const, text: text === "" ? "(no output)" : text }],
  };
}
