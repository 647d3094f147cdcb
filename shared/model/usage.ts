import type { ModelUsage } from "./model.ts";

/** The provider's usage object, as `JSON.parse` gave it. */
export type ReportedUsage = Readonly<Record<string, unknown>>;

/**
 * Brings the counts up to date. Each report is a running total of the whole message and leaves out what has not
 * changed or does not apply, so a present number replaces and an absent one changes nothing.
 */
export function updateUsage(before: ModelUsage | null, reported: ReportedUsage): ModelUsage {
  const serverTools = asRecord(reported["server_tool_use"]);
  return {
    inputTokens: count(reported["input_tokens"], before?.inputTokens),
    outputTokens: count(reported["output_tokens"], before?.outputTokens),
    cacheReadInputTokens: count(reported["cache_read_input_tokens"], before?.cacheReadInputTokens),
    cacheCreationInputTokens: count(reported["cache_creation_input_tokens"], before?.cacheCreationInputTokens),
    webSearchRequests: count(serverTools["web_search_requests"], before?.webSearchRequests),
    webFetchRequests: count(serverTools["web_fetch_requests"], before?.webFetchRequests),
  };
}

function count(reported: unknown, before: number | undefined): number {
  return typeof reported === "number" && Number.isSafeInteger(reported) && reported >= 0 ? reported : (before ?? 0);
}

export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
