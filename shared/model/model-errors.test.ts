import { describe, expect, it } from "vitest";
import { errorFromAnswer, errorFromEvent } from "./model-errors.ts";

function fromAnswer(status: number, type: string, message: string, headers: Record<string, string> = {}) {
  const body = { type: "error", error: { type, message } };
  return errorFromAnswer({ status, headers: new Headers(headers), body, secret: "sk-secret" });
}

describe("an HTTP error", () => {
  it.each([
    [429, "rate_limit_error", "model_rate_limited_error", true],
    [529, "overloaded_error", "model_overloaded_error", true],
    [503, "overloaded_error", "model_overloaded_error", true],
    [500, "api_error", "model_request_failed_error", true],
    [502, "", "model_request_failed_error", true],
    [504, "timeout_error", "model_request_failed_error", true],
    [408, "", "model_request_failed_error", true],
    [409, "conflict_error", "model_request_failed_error", true],
    [402, "billing_error", "billing_error", false],
    [403, "billing_error", "billing_error", false],
    [400, "invalid_request_error", "model_request_failed_error", false],
    [401, "authentication_error", "model_request_failed_error", false],
    [403, "permission_error", "model_request_failed_error", false],
    [404, "not_found_error", "model_request_failed_error", false],
    [413, "request_too_large", "model_request_failed_error", false],
    [307, "", "model_request_failed_error", false],
  ])("%i %s → %s, retryable: %s", (status, type, expected, retryable) => {
    const error = fromAnswer(status, type, "words");
    expect([error.type, error.retryable, error.status]).toEqual([expected, retryable, status]);
  });

  it("with a body that is not the Messages format is judged by its status", () => {
    const error = errorFromAnswer({ status: 503, headers: new Headers(), body: undefined, secret: "k" });
    expect([error.type, error.retryable, error.message]).toEqual([
      "model_request_failed_error",
      true,
      "The model request failed (HTTP 503).",
    ]);
  });

  it("is billing when the credit is used up or a spend limit reached", () => {
    const credit = fromAnswer(400, "invalid_request_error", "Your credit balance is too low to access the API.");
    const body = { error: { type: "rate_limit_error", details: { error_code: "contract_spend_limit_reached" } } };
    const limit = errorFromAnswer({ status: 429, headers: new Headers(), body, secret: "k" });
    expect([credit.type, credit.retryable, limit.type, limit.retryable]).toEqual([
      "billing_error",
      false,
      "billing_error",
      false,
    ]);
  });

  it.each([
    [413, "request_too_large", "Request exceeds the maximum size"],
    [413, "", ""],
    [400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"],
    [400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"],
    [400, "", "This model's maximum context length is 8192 tokens."],
  ])("%i %s %s is too large", (status, type, message) => {
    const error = fromAnswer(status, type, message, { "x-should-retry": "true" });
    expect([error.tooLarge, error.retryable]).toEqual([true, false]);
  });

  it.each([
    [400, "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens"],
    [400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"],
    [400, "tools.0.custom.input_schema: exceeds maximum nesting"],
    [500, "prompt is too long"],
  ])("%i %s is not too large", (status, message) => {
    expect(fromAnswer(status, "invalid_request_error", message).tooLarge).toBe(false);
  });

  it("obeys x-should-retry", () => {
    expect(fromAnswer(429, "rate_limit_error", "", { "x-should-retry": "false" }).retryable).toBe(false);
    expect(fromAnswer(404, "not_found_error", "", { "x-should-retry": "true" }).retryable).toBe(true);
  });

  it.each([
    [{ "retry-after": "7" }, 7000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after": "7", "retry-after-ms": "1250" }, 1250],
    [{ "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, 0],
    [{ "retry-after": "soon" }, null],
    [{}, null],
  ])("waits as asked: %j → %s ms", (headers, expected) => {
    expect(fromAnswer(429, "rate_limit_error", "", headers as Record<string, string>).retryAfterMs).toBe(expected);
  });

  it("keeps the request id", () => {
    expect(fromAnswer(500, "api_error", "", { "request-id": "req_9" }).requestId).toBe("req_9");
  });
});

describe("a message shown to clients", () => {
  it("passes on what is wrong with the request, in one bounded line without the key", () => {
    const error = fromAnswer(400, "invalid_request_error", `bad\u0000 field\n sk-secret ${"x".repeat(1000)}`);
    expect(error.message).toBe(
      `The model endpoint refused the request (HTTP 400): bad field [redacted] ${"x".repeat(279)}…`,
    );
  });

  it.each([
    [401, "authentication_error", "The model endpoint refused the configured credentials (HTTP 401)."],
    [402, "billing_error", "The model endpoint refused the request for billing reasons."],
    [429, "rate_limit_error", "The model endpoint's rate limit was reached."],
    [529, "overloaded_error", "The model is overloaded."],
    [500, "api_error", "The model request failed (HTTP 500)."],
  ])("does not pass on words about the operator's account: %i", (status, type, expected) => {
    expect(fromAnswer(status, type, "org-42 key sk-secret at 10.0.0.1").message).toBe(expected);
  });
});

describe("an error event", () => {
  const progress = { usage: null, requestId: "req_1" };

  it.each([
    ["overloaded_error", "model_overloaded_error", true],
    ["rate_limit_error", "model_rate_limited_error", true],
    ["api_error", "model_request_failed_error", true],
    ["timeout_error", "model_request_failed_error", true],
    ["", "model_request_failed_error", true],
    ["billing_error", "billing_error", false],
    ["invalid_request_error", "model_request_failed_error", false],
    ["authentication_error", "model_request_failed_error", false],
  ])("%s → %s, retryable: %s", (type, expected, retryable) => {
    const error = errorFromEvent({ type: "error", error: { type, message: "m" } }, progress);
    expect([error.type, error.retryable, error.status, error.requestId]).toEqual([expected, retryable, null, "req_1"]);
  });

  it("can be too large", () => {
    const error = errorFromEvent({ error: { type: "request_too_large", message: "m" } }, progress);
    expect([error.tooLarge, error.retryable]).toEqual([true, false]);
  });
});
