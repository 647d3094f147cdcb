import Anthropic, { APIError } from "@anthropic-ai/sdk";
import { watchedFetch } from "./stream-watch.ts";

/** Three of the server's comments, one every 15 s. */
const STREAM_SILENCE_MS = 45_000;
/** Until an answer begins. A poll, which the server holds, sets its own. */
const REQUEST_TIMEOUT_MS = 30_000;

export type ApiClient = Anthropic;

/** A client that sends `token` as its only credential. */
export function apiClient(options: { readonly baseURL: string; readonly token: string }): ApiClient {
  return new Anthropic({
    baseURL: options.baseURL,
    authToken: options.token,
    timeout: REQUEST_TIMEOUT_MS,
    fetch: watchedFetch(STREAM_SILENCE_MS),
    // The SDK logs the raw text of an event that it cannot parse: conversation text.
    logLevel: "off",
  });
}

export function statusOf(error: unknown): number | undefined {
  return error instanceof APIError ? error.status : undefined;
}

/** A 4xx that no repeat can heal: all but 408, 409 and 429. */
export function isFatal(error: unknown): boolean {
  const status = statusOf(error);
  return status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 409 && status !== 429;
}

/** True when the server says that repeating the request is pointless. */
export function forbidsRetry(error: unknown): boolean {
  return error instanceof APIError && error.headers?.get("x-should-retry") === "false";
}

/** What a log may say about a failed request: its status and type, or the error's name; a message may quote content. */
export function errorLabel(error: unknown): string {
  if (error instanceof APIError && error.status !== undefined) {
    return error.type ? `${error.status} ${error.type}` : String(error.status);
  }
  if (!(error instanceof Error)) return "unknown error";
  const cause = error.cause instanceof Error ? (codeOf(error.cause) ?? codeOf(error.cause.cause)) : undefined;
  return codeOf(error) ?? cause ?? error.constructor.name;
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}
