/**
 * Turns what an endpoint or the network did into a `ModelError`.
 *
 * The messages are shown to clients. An endpoint's own words are passed on only where they tell the client what is
 * wrong with the request; about credentials, billing and capacity they may name keys, organisations or hosts.
 */
import type { StreamEvent } from "./message-assembly.ts";
import { ModelError, type ModelUsage } from "./model.ts";
import { asRecord } from "./usage.ts";

const MAX_MESSAGE_CHARS = 300;

const TOO_LARGE = new RegExp(
  [
    "request_too_large",
    "prompt is too long",
    "maximum context length",
    "context_length_exceeded",
    "(input length|input tokens?|prompt|context)[^.]{0,80}exceed[^.]{0,60}(context|window|limit|maximum)",
  ].join("|"),
  "i",
);
const OUT_OF_CREDIT = /credit balance is too low/i;
const SPEND_LIMIT = /spend_limit_reached$/;

/** What is known about a failure: from an HTTP answer, or from an `error` event in a stream. */
interface Failure {
  /** Null for an event in a stream. */
  readonly status: number | null;
  readonly errorType: string;
  readonly errorCode: string;
  readonly message: string;
}

/** An answer with a status other than 2xx. `body` is its JSON, when it was JSON. `secret` never shows in a message. */
export function errorFromAnswer(answer: {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
  readonly secret: string;
}): ModelError {
  const failure = readFailure(answer.status, answer.body);
  const verdict = judge(failure);
  // The endpoint's own word on repeating, as the official clients read it; a body that can never fit stays final.
  const word = answer.headers.get("x-should-retry");
  const mayRetry = word === "true" || word === "false" ? word === "true" : verdict.retryable;
  return new ModelError(safeMessage(failure, verdict.type, answer.secret), {
    ...verdict,
    retryable: mayRetry && !verdict.tooLarge && verdict.type !== "billing_error",
    status: answer.status,
    retryAfterMs: retryAfterMs(answer.headers),
    requestId: requestIdOf(answer.headers),
  });
}

/** What was known of a request whose answer had begun. */
export interface Progress {
  readonly usage: ModelUsage | null;
  readonly requestId: string | null;
}

/** An `error` event: in a stream that began well, or as the whole answer. */
export function errorFromEvent(event: StreamEvent, progress: Progress): ModelError {
  const failure = readFailure(null, event);
  const verdict = judge(failure);
  return new ModelError(safeMessage(failure, verdict.type, ""), { ...verdict, ...progress });
}

/** The endpoint was not reached, or its stream broke or made no sense. */
export function brokenRequest(message: string, progress: Progress, cause?: unknown): ModelError {
  return new ModelError(message, { type: "model_request_failed_error", retryable: true, cause, ...progress });
}

export function requestIdOf(headers: Headers): string | null {
  return headers.get("request-id")?.slice(0, 200) ?? null;
}

function readFailure(status: number | null, body: unknown): Failure {
  const error = asRecord(asRecord(body)["error"]);
  const string = (value: unknown) => (typeof value === "string" ? value : "");
  return {
    status,
    errorType: string(error["type"]),
    errorCode: string(asRecord(error["details"])["error_code"]),
    message: string(error["message"]),
  };
}

function judge(failure: Failure): Pick<ModelError, "type" | "retryable" | "tooLarge"> {
  const { status, errorType } = failure;
  const failed = { type: "model_request_failed_error", retryable: false, tooLarge: false } as const;
  if (
    status === 402 ||
    errorType === "billing_error" ||
    SPEND_LIMIT.test(failure.errorCode) ||
    OUT_OF_CREDIT.test(failure.message)
  ) {
    return { ...failed, type: "billing_error" };
  }
  if (status === 529 || errorType === "overloaded_error") {
    return { ...failed, type: "model_overloaded_error", retryable: true };
  }
  if (status === 429 || errorType === "rate_limit_error") {
    return { ...failed, type: "model_rate_limited_error", retryable: true };
  }
  const isRefusedInput = status === null ? errorType === "invalid_request_error" : status === 400 || status === 422;
  if (status === 413 || errorType === "request_too_large" || (isRefusedInput && TOO_LARGE.test(failure.message))) {
    return { ...failed, tooLarge: true };
  }
  if (status === null) return { ...failed, retryable: !FINAL_EVENT_ERRORS.has(errorType) };
  return { ...failed, retryable: status === 408 || status === 409 || status >= 500 };
}

/** Of the errors inside a stream, those that the same request would meet again. */
const FINAL_EVENT_ERRORS: ReadonlySet<string> = new Set([
  "invalid_request_error",
  "authentication_error",
  "permission_error",
  "not_found_error",
]);

function safeMessage(failure: Failure, type: ModelError["type"], secret: string): string {
  if (type === "billing_error") return "The model endpoint refused the request for billing reasons.";
  if (type === "model_overloaded_error") return "The model is overloaded.";
  if (type === "model_rate_limited_error") return "The model endpoint's rate limit was reached.";
  const { status, errorType } = failure;
  const told = status === null ? (errorType ? ` (${bounded(errorType, 60)})` : "") : ` (HTTP ${status})`;
  const isAboutTheRequest = status === 400 || status === 404 || status === 413 || status === 422;
  if (isAboutTheRequest && failure.message !== "") {
    // A key that short ("ollama", "x") is none, and may be a word of the message.
    const shown = secret.length < 8 ? failure.message : failure.message.replaceAll(secret, "[redacted]");
    return `The model endpoint refused the request${told}: ${bounded(shown, MAX_MESSAGE_CHARS)}`;
  }
  if (status === 401 || status === 403 || errorType === "authentication_error" || errorType === "permission_error") {
    return `The model endpoint refused the configured credentials${told}.`;
  }
  return `The model request failed${told}.`;
}

/** One line, no control characters, no half of a surrogate pair. */
function bounded(text: string, max: number): string {
  const line = text.replace(/[\p{Cc}\p{Cs}\s]+/gu, " ").trim();
  const characters = [...line];
  return characters.length > max ? `${characters.slice(0, max).join("")}…` : line;
}

function retryAfterMs(headers: Headers): number | null {
  const milliseconds = headers.get("retry-after-ms");
  if (milliseconds !== null && Number(milliseconds) >= 0) return Number(milliseconds);
  const retryAfter = headers.get("retry-after");
  if (retryAfter === null || retryAfter.trim() === "") return null;
  const seconds = Number(retryAfter);
  const wait = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000;
  return Number.isFinite(wait) ? Math.max(0, Math.round(wait)) : null;
}
