import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { events, type FakeReply, type FakeStep, failure, json, sse } from "../../test/fake-model/replies.ts";
import { type FakeModel, startFakeModel } from "../../test/fake-model/server.ts";
import { type CapabilityProfile, parseProfile } from "./capability-profile.ts";
import { messagesModel } from "./messages-model.ts";
import { ModelAborted, ModelError, type ModelPreview, type ModelUsage } from "./model.ts";

const START = '{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":12,"output_tokens":1}}}';
const BLOCK = '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}';
const HELLO = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello ☕"}}';
const END = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}';
const STOP = '{"type":"message_stop"}';
const BODY = '{"model":"claude-x","max_tokens":10,"messages":[{"role":"user","content":"hi"}],"stream":true}';

const NO_UTF_8 = Buffer.from(
  sse('{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"?"}}'),
);
NO_UTF_8[NO_UTF_8.indexOf("?")] = 0xff;

const USAGE_AT_START: ModelUsage = {
  inputTokens: 12,
  outputTokens: 1,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};

let fake: FakeModel;
afterEach(() => fake.close());

async function ask(
  reply: FakeReply,
  more: {
    body?: string;
    signal?: AbortSignal;
    onPreview?: (p: ModelPreview) => void;
    timeoutMs?: number;
    profile?: CapabilityProfile;
  } = {},
) {
  fake = await startFakeModel({ script: [reply, reply, reply] });
  const { body = BODY, signal = new AbortController().signal, onPreview, timeoutMs, profile } = more;
  const model = messagesModel({
    baseURL: fake.url,
    apiKey: "sk-secret",
    auth: "x-api-key",
    profile,
    ...(timeoutMs !== undefined && { timeoutMs }),
  });
  return model.stream({ body, signal, idempotencyKey: "key-1", ...(onPreview && { onPreview }) });
}

async function failureOf(answer: Promise<unknown>): Promise<ModelError> {
  const error: unknown = await answer.catch((cause: unknown) => cause);
  if (!(error instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: error });
  return error;
}

describe("the request", () => {
  it("arrives byte for byte", async () => {
    const body =
      ' { "b" : 1.0,"a":12345678901234567890, "10":{"2":1e+400,"1":-0},\n\t"nul":"\\u0000 and \\\\u0000",' +
      '"lone":"\\ud800x\\udc00","pair":"\\ud83d\\ude00","raw":"😀é\u2028","slash":"\\/","dup":1,"dup":2} ';
    await ask(events(START, STOP), { body });
    expect(fake.requests[0]?.bytes.equals(Buffer.from(body, "utf8"))).toBe(true);
  });

  it("carries its idempotency key under the header that the profile names, and under none without one", async () => {
    const profile = parseProfile('{"version":"v","provider_idempotency":{"header":"x-once"}}');
    await ask(events(START, STOP), { profile });
    expect(fake.requests[0]?.headers["x-once"]).toBe("key-1");
    await fake.close();
    await ask(events(START, STOP));
    expect(Object.values(fake.requests[0]?.headers ?? {})).not.toContain("key-1");
  });

  it("carries what Messages needs and nothing that the SDK or the environment would add", async () => {
    process.env["ANTHROPIC_CUSTOM_HEADERS"] = "x-from-environment: 1";
    try {
      await ask(events(START, STOP));
    } finally {
      delete process.env["ANTHROPIC_CUSTOM_HEADERS"];
    }
    const request = fake.requests[0];
    expect([request?.method, request?.path]).toEqual(["POST", "/v1/messages"]);
    expect(request?.headers).toMatchObject({
      "anthropic-version": "2023-06-01",
      "content-type": "application/json",
      "x-api-key": "sk-secret",
    });
    // The rest is fetch's own.
    expect(Object.keys(request?.headers ?? {}).sort()).toEqual([
      "accept",
      "accept-encoding",
      "accept-language",
      "anthropic-version",
      "connection",
      "content-length",
      "content-type",
      "host",
      "sec-fetch-mode",
      "user-agent",
      "x-api-key",
    ]);
  });

  it("can authenticate as a bearer, below a path", async () => {
    fake = await startFakeModel({ script: [events(START, STOP)] });
    const model = messagesModel({ baseURL: `${fake.url}/gateway/`, apiKey: "sk-b", auth: "authorization-bearer" });
    await model.stream({ body: BODY, signal: new AbortController().signal });
    const request = fake.requests[0];
    expect([request?.path, request?.headers.authorization, request?.headers["x-api-key"]]).toEqual([
      "/gateway/v1/messages",
      "Bearer sk-b",
      undefined,
    ]);
  });

  it("is sent once: retries are not the adapter's", async () => {
    await failureOf(ask(failure(500, "api_error", "")));
    expect(fake.requests.length).toBe(1);
  });

  it("does not take the key to where a redirect points", async () => {
    const error = await failureOf(ask({ status: 307, headers: { location: "/elsewhere" }, steps: [] }));
    expect([error.status, error.retryable, fake.requests.length]).toEqual([307, false, 1]);
  });

  it("is refused before it is sent when the key or the URL cannot be used", async () => {
    fake = await startFakeModel();
    const bad = (baseURL: string, apiKey: string) => () => messagesModel({ baseURL, apiKey, auth: "x-api-key" });
    expect(bad(fake.url, "sk\nsecret")).toThrow(/^The model API key is empty or has characters/);
    expect(bad(fake.url, "")).toThrow(TypeError);
    expect(bad("ftp://host", "sk")).toThrow(TypeError);
    expect(bad("localhost:8080", "sk")).toThrow(TypeError);
  });
});

describe("the response", () => {
  it("is read from the stream with its previews", async () => {
    const seen: ModelPreview[] = [];
    const answer = await ask(events(START, BLOCK, HELLO, '{"type":"content_block_stop","index":0}', END, STOP), {
      onPreview: (preview) => seen.push(preview),
    });
    expect(answer).toEqual({
      content: '[{"type":"text","text":"Hello ☕"}]',
      stopReason: "end_turn",
      stopDetails: null,
      model: "claude-x",
      usage: { ...USAGE_AT_START, outputTokens: 4 },
      requestId: "req_fake",
    });
    expect(seen).toEqual([
      { type: "block_start", index: 0, blockType: "text" },
      { type: "text_delta", index: 0, text: "Hello ☕" },
    ]);
  });

  it("is the same whatever the sizes of the pieces it arrives in", async () => {
    const bytes = Buffer.from(`: hi\r\n\r\n${[START, BLOCK, HELLO, END, STOP].map(sse).join("")}`);
    const steps: FakeStep[] = [];
    for (let at = 0; at < bytes.length; at += 7) steps.push({ bytes: bytes.subarray(at, at + 7) }, { waitMs: 0 });
    const answer = await ask({ steps });
    expect(answer.content).toBe('[{"type":"text","text":"Hello ☕"}]');
  });

  it("leaves its connection to the next request", async () => {
    const slowEnd: FakeReply = { steps: [{ data: START }, { data: STOP }, { waitMs: 20 }] };
    fake = await startFakeModel({ script: () => slowEnd });
    const model = messagesModel({ baseURL: fake.url, apiKey: "k", auth: "x-api-key" });
    for (let i = 0; i < 3; i++) {
      await model.stream({ body: BODY, signal: new AbortController().signal });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(fake.connections).toBe(1);
  });

  it("is complete at message_stop, though the connection stays open", async () => {
    const open = await ask({ steps: [{ data: START }, { data: STOP }, { until: new Promise(() => {}) }] });
    expect(open.content).toBe("[]");
  });
});

describe("a failure", () => {
  it.each<[string, FakeReply]>([
    ["the stream ends early", events(START, BLOCK, HELLO)],
    ["the connection is cut", { steps: [{ data: START }, { data: BLOCK }, { waitMs: 20 }, { cut: true }] }],
    ["an event is no JSON", events(START, '{"type":')],
    ["the bytes are no UTF-8", { steps: [{ data: START }, { waitMs: 20 }, { bytes: NO_UTF_8 }, { data: STOP }] }],
  ])("keeps the usage and may be retried when %s", async (_, reply) => {
    const error = await failureOf(ask({ ...reply, headers: { "request-id": "req_fake" } }));
    expect([error.type, error.retryable, error.status, error.requestId, error.usage]).toEqual([
      "model_request_failed_error",
      true,
      null,
      "req_fake",
      USAGE_AT_START,
    ]);
    expect(error.message).toBe("The model's response broke off or could not be read.");
  });

  it("is an error event after a good beginning", async () => {
    const error = await failureOf(
      ask(events(START, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')),
    );
    expect([error.type, error.retryable, error.usage]).toEqual(["model_overloaded_error", true, USAGE_AT_START]);
  });

  it("is an HTTP status, with the wait that was asked for", async () => {
    const error = await failureOf(ask(failure(429, "rate_limit_error", "slow down", { "retry-after": "3" })));
    expect([error.type, error.retryable, error.status, error.retryAfterMs, error.requestId]).toEqual([
      "model_rate_limited_error",
      true,
      429,
      3000,
      "req_fake",
    ]);
  });

  it("is an HTTP status whose body is a web page", async () => {
    const page = { status: 502, headers: { "content-type": "text/html" }, steps: [{ bytes: "<h1>Bad gateway</h1>" }] };
    const error = await failureOf(ask(page));
    expect([error.type, error.retryable, error.message]).toEqual([
      "model_request_failed_error",
      true,
      "The model request failed (HTTP 502).",
    ]);
  });

  it("is a success that is no stream: another kind of server", async () => {
    const error = await failureOf(ask(json(200, { id: "msg_1", content: [] })));
    expect([error.retryable, error.status, error.message]).toEqual([
      false,
      200,
      "The model endpoint did not answer with a Messages stream.",
    ]);
  });

  it("is an error that came with status 200", async () => {
    const error = await failureOf(ask(failure(200, "rate_limit_error", "")));
    expect([error.type, error.retryable]).toEqual(["model_rate_limited_error", true]);
  });

  it("is an endpoint that does not answer in time", async () => {
    const error = await failureOf(ask({ steps: [{ until: new Promise(() => {}) }] }, { timeoutMs: 30 }));
    expect([error.retryable, error.message]).toEqual([true, "The model endpoint did not answer in time."]);
  });

  it("is an endpoint that is not there, and does not say where that was", async () => {
    fake = await startFakeModel();
    await fake.close();
    const model = messagesModel({ baseURL: fake.url, apiKey: "sk-secret", auth: "x-api-key" });
    const error = await failureOf(model.stream({ body: BODY, signal: new AbortController().signal }));
    expect([error.retryable, error.message]).toEqual([true, "The model endpoint could not be reached."]);
    fake = await startFakeModel();
  });
});

describe("an abort", () => {
  it("during the stream carries the usage so far", async () => {
    const stop = new AbortController();
    const endless: FakeReply = { steps: [{ data: START }, { data: BLOCK }, { until: new Promise(() => {}) }] };
    const answer = ask(endless, { signal: stop.signal, onPreview: () => stop.abort() });
    const error: unknown = await answer.catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(ModelAborted);
    expect((error as ModelAborted).usage).toEqual(USAGE_AT_START);
  });

  it("hangs up, so that the provider stops writing", async () => {
    fake = await startFakeModel();
    const hungUp = Promise.withResolvers<void>();
    const server = createServer((_, response) => {
      response.once("close", hungUp.resolve).writeHead(200, { "content-type": "text/event-stream" });
      response.write(sse(BLOCK));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const stop = new AbortController();
    const model = messagesModel({ baseURL: `http://127.0.0.1:${port}`, apiKey: "k", auth: "x-api-key" });
    const answer = model.stream({ body: BODY, signal: stop.signal, onPreview: () => stop.abort() });
    await expect(answer).rejects.toThrow(ModelAborted);
    await hungUp.promise;
    server.close();
  });

  it("before the answer has no usage", async () => {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 20);
    const error: unknown = await ask({ steps: [{ until: new Promise(() => {}) }] }, { signal: stop.signal }).catch(
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(ModelAborted);
    expect((error as ModelAborted).usage).toBeNull();
  });

  it("before the request sends nothing", async () => {
    const error: unknown = await ask(events(START, STOP), { signal: AbortSignal.abort() }).catch(
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(ModelAborted);
    expect(fake.requests.length).toBe(0);
  });
});
