import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { configuredTools } from "./configured-tools.ts";
import { pageCaller } from "./page-caller.ts";

/** Lambda's Invoke on loopback: notes who was invoked with what, and answers what the test says. */
const invoked: { readonly path: string; readonly event: unknown }[] = [];
let answer: (response: ServerResponse) => void;
const lambda = createServer((request, response) => {
  void request.toArray().then((chunks) => {
    invoked.push({ path: request.url ?? "", event: JSON.parse(Buffer.concat(chunks as Buffer[]).toString()) });
    answer(response);
  });
});

beforeAll(async () => {
  await new Promise<void>((listening) => lambda.listen(0, "127.0.0.1", listening));
  vi.stubEnv("AWS_REGION", "eu-central-1");
  vi.stubEnv("AWS_ACCESS_KEY_ID", "test");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "test");
  vi.stubEnv("AWS_ENDPOINT_URL", `http://127.0.0.1:${(lambda.address() as AddressInfo).port}`);
});
beforeEach(() => invoked.splice(0));
afterAll(() => {
  lambda.closeAllConnections();
  lambda.close();
});

const URL_A = "https://a.example/";
const PROVENANCE = {
  requested_url: URL_A,
  final_url: URL_A,
  redirects: [],
  address: "93.184.215.14",
  status: 200,
  media_type: "text/html",
  bytes: 5,
  sha256: "ab",
  started_at: "2026-01-01T00:00:00.000Z",
  duration_ms: 1,
};
const PAGE = { kind: "page", text: "Hello", cut: false, provenance: PROVENANCE };
const REFUSED = { kind: "error", code: "address_not_allowed", message: "No.", provenance: PROVENANCE };
const REQUEST = { url: URL_A, domains: [{ allowed: ["a.example"], blocked: null }], max_characters: 100 };
const FETCH = "/2015-03-31/functions/fetch-page/invocations";

const says = (body: unknown) => (response: ServerResponse) => response.end(JSON.stringify(body));
const ask = (signal = new AbortController().signal) => pageCaller("fetch-page")(REQUEST, signal);

describe("a page fetched by the function outside", () => {
  test.each([
    ["a page", PAGE],
    ["an error that the model may hear of", REFUSED],
  ])("is asked for once with the request as it is, and comes back as %s", async (_, outcome) => {
    answer = says(outcome);

    expect(await ask()).toEqual(outcome);
    expect(invoked).toEqual([{ path: FETCH, event: REQUEST }]);
  });

  test.each<[string, (response: ServerResponse) => void]>([
    [
      "the function failed",
      (response) => response.setHeader("x-amz-function-error", "Unhandled").end(JSON.stringify(PAGE)),
    ],
    ["it answers what is no outcome", says({ ...PAGE, kind: "movie" })],
    ["it answers no JSON", (response) => response.end("<html>")],
    ["it answers nothing", (response) => response.end()],
    [
      "Lambda throttles",
      (response) => response.writeHead(429, { "x-amzn-errortype": "TooManyRequestsException" }).end("{}"),
    ],
    ["Lambda is broken", (response) => response.writeHead(500).end("{}")],
    ["the connection breaks", (response) => response.destroy()],
  ])("is a rejection after one attempt when %s", async (_, broken) => {
    answer = broken;

    await expect(ask()).rejects.toThrow();
    expect(invoked).toHaveLength(1);
  });

  test("is waited for no longer than its signal says", async () => {
    const stop = new AbortController();
    const closed = Promise.withResolvers<void>();
    answer = (response) => {
      response.once("close", closed.resolve);
      stop.abort();
    };

    await expect(ask(stop.signal)).rejects.toMatchObject({ name: "AbortError" });
    await closed.promise;
  });
});

describe("the tools of a deployment", () => {
  const call = (name: string) => ({
    name,
    input: JSON.stringify({ url: URL_A }),
    idempotencyKey: "step_1",
    signal: new AbortController().signal,
    session: {
      tools: [{ name: "web_fetch", owner: "platform_managed", policy: "always_allow", declaration: "{}" }] as const,
      readTranscript: async () => [
        {
          id: "tent_1",
          place: { turn: 1, entry: 0 },
          role: "user" as const,
          content: `[{"type":"text","text":"Read ${URL_A}"}]`,
          toolUseIds: [],
          halfServerCalls: [],
          refused: false,
          provider: "messages",
          model: "m",
        },
      ],
    },
  });

  test("are none where the endpoint fetches", async () => {
    const tools = configuredTools({});

    expect(tools.manages).toBeUndefined();
    expect(await tools.run(call("web_fetch"))).toMatchObject({ isError: true });
    expect(invoked).toEqual([]);
  });

  test("are web_fetch where it is managed, within the deployment's domains", async () => {
    answer = says(PAGE);
    const tools = configuredTools({
      MANGO_WEB_FETCH: "managed",
      MANGO_WEB_FETCH_FUNCTION: "fetch-page",
      MANGO_WEB_FETCH_ALLOWED_DOMAINS: "a.example, b.example",
      MANGO_WEB_FETCH_BLOCKED_DOMAINS: "c.b.example",
    });

    expect(tools.manages).toEqual(["web_fetch"]);
    const outcome = await tools.run(call("web_fetch"));

    expect(outcome.isError).toBe(false);
    expect(outcome.content).toContain("Hello");
    expect(invoked).toMatchObject([
      {
        path: FETCH,
        event: { url: URL_A, domains: [{ allowed: ["a.example", "b.example"], blocked: ["c.b.example"] }, {}] },
      },
    ]);
  });

  test("are refused without the name of the function", () => {
    expect(() => configuredTools({ MANGO_WEB_FETCH: "managed" })).toThrow("MANGO_WEB_FETCH_FUNCTION is not set.");
  });
});
