import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { type Model, ModelAborted, ModelError, type ModelRequest, type ModelResponse } from "../model/model.ts";
import { CRITERIA } from "./criteria.ts";
import { EvaluationCancelled, modelEvaluator } from "./evaluator.ts";

const USAGE = {
  inputTokens: 40,
  outputTokens: 6,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};
const text = (words: string) => JSON.stringify({ type: "text", text: words });
const response = (fields: Partial<ModelResponse>): ModelResponse => ({
  content: `[${text('{"permission":"allow"}')}]`,
  stopReason: "end_turn",
  stopDetails: null,
  model: "test-1",
  usage: USAGE,
  requestId: "req_judge",
  ...fields,
});

/** A Messages endpoint that gives one answer; what it was asked is kept. */
function answering(answer: (request: ModelRequest) => Promise<ModelResponse>) {
  const asked: ModelRequest[] = [];
  const model: Model = {
    provider: "messages",
    stream(request) {
      asked.push(request);
      return answer(request);
    },
  };
  const evaluate = (signal = new AbortController().signal, deadlineMs = 20_000) =>
    modelEvaluator(model, { deadlineMs }).evaluate({ model: "test-1", envelope: '{"call":1}', signal });
  return { model, asked, evaluate };
}

/** Answers only when it is told to stop, as an endpoint that hangs. */
const hanging = ({ signal }: ModelRequest) =>
  new Promise<ModelResponse>((_, reject) => {
    signal.addEventListener("abort", () => reject(new ModelAborted({ ...USAGE, outputTokens: 0 })), { once: true });
  });

test("the request: the session's model, no tools, no thinking, at most 1,024 tokens, the envelope as it is", async () => {
  const { asked, evaluate } = answering(async () => response({}));
  await evaluate();
  expect(asked).toHaveLength(1);
  expect(asked[0]?.body).toBe(
    `{"model":"test-1","max_tokens":1024,"thinking":{"type":"disabled"},"system":${JSON.stringify(CRITERIA)},` +
      '"messages":[{"role":"user","content":[{"type":"text","text":"{\\"call\\":1}"}]}],"stream":true}',
  );
});

test("there are 20 seconds for it", async () => {
  const timeout = vi.spyOn(AbortSignal, "timeout");
  await modelEvaluator(answering(async () => response({})).model).evaluate({
    model: "test-1",
    envelope: "{}",
    signal: new AbortController().signal,
  });
  expect(timeout.mock.calls).toEqual([[20_000]]);
  timeout.mockRestore();
});

test("the model's own judgment, with what it cost and what it was shown", async () => {
  const { asked, evaluate } = answering(async () =>
    response({ content: `[${text('{"permission":"deny","reason_code":"high_risk"}')}]` }),
  );
  expect(await evaluate()).toEqual({
    judgment: { permission: "deny", reason_code: "high_risk" },
    fallback: null,
    requestDigest: createHash("sha256")
      .update(asked[0]?.body ?? "")
      .digest(),
    model: "test-1",
    stopReason: "end_turn",
    requestId: "req_judge",
    usage: USAGE,
  });
});

describe("a person is asked when", () => {
  const failing = (error: Error) => async () => Promise.reject(error);
  const overloaded = new ModelError("Overloaded.", {
    type: "model_overloaded_error",
    retryable: true,
    requestId: "req_o",
  });
  test.each<[string, string, (request: ModelRequest) => Promise<ModelResponse>]>([
    ["the model refuses", "refusal", async () => response({ stopReason: "refusal" })],
    ["the answer is cut off", "truncated", async () => response({ stopReason: "max_tokens" })],
    ["the stop reason cannot be stored", "malformed", async () => response({ stopReason: "end\u0000turn" })],
    ["the answer has no end", "malformed", async () => response({ stopReason: null })],
    ["the model calls a tool", "malformed", async () => response({ stopReason: "tool_use" })],
    ["there is nothing", "malformed", async () => response({ content: "[]" })],
    ["there is prose", "malformed", async () => response({ content: `[${text("I would allow it.")}]` })],
    [
      "there is more than the object",
      "malformed",
      async () => response({ content: `[${text('{"permission":"allow"}')},${text("!")}]` }),
    ],
    [
      "the model thinks aloud first",
      "malformed",
      async () => response({ content: `[{"type":"thinking","thinking":"hm"},${text('{"permission":"allow"}')}]` }),
    ],
    ["the provider fails", "provider_error", failing(overloaded)],
  ])("%s", async (_, fallback, answer) => {
    const evaluation = await answering(answer).evaluate();
    expect(evaluation).toMatchObject({ judgment: { permission: "ask", reason_code: "indeterminate" }, fallback });
  });

  test("there is no answer in time; what is known of the cost is kept", async () => {
    expect(await answering(hanging).evaluate(undefined, 20)).toMatchObject({
      judgment: { permission: "ask", reason_code: "indeterminate" },
      fallback: "timeout",
      usage: { inputTokens: 40, outputTokens: 0 },
    });
  });
});

test("an interrupt cancels: no judgment, but the cost", async () => {
  const interrupt = new AbortController();
  const evaluating = answering(hanging).evaluate(interrupt.signal);
  interrupt.abort();
  await expect(evaluating).rejects.toThrow(EvaluationCancelled);
  await expect(evaluating).rejects.toMatchObject({ usage: { inputTokens: 40, outputTokens: 0 } });
});

test("a fault of ours is no judgment", async () => {
  await expect(answering(() => Promise.reject(new TypeError("ours"))).evaluate()).rejects.toThrow(TypeError);
});
