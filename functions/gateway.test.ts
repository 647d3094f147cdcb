import { expect, test } from "vitest";
import { EnvironmentError } from "./environment.ts";
import { answerOf, respond } from "./gateway.ts";
import { gatewayEvent } from "./testing/gateway-event.ts";

/** Answers with what it was asked. */
const echo = () => ({
  async fetch(request: Request) {
    const { method, url } = request;
    return Response.json({ method, url, headers: Object.fromEntries(request.headers), body: await request.text() });
  },
});

async function ask(...event: Parameters<typeof gatewayEvent>): Promise<Record<string, unknown>> {
  const response = await respond(echo, gatewayEvent(...event));
  expect(response.status).toBe(200);
  return (await response.json()) as Record<string, unknown>;
}

test("a request arrives as it was sent", async () => {
  const query = { "event_deltas[]": ["agent.message", "agent.thinking"], after: ["a&b=c d"] };
  const asked = await ask("POST", "/v1/sessions/sesn_1/events", {
    query,
    multiValueHeaders: { "X-Api-Key": ["sk-1"], Accept: ["a/b", "c/d"] },
    body: '{"text":"ü"}',
  });

  expect(asked).toMatchObject({
    method: "POST",
    headers: { "x-api-key": "sk-1", accept: "a/b, c/d" },
    body: '{"text":"ü"}',
  });
  const url = new URL(String(asked["url"]));
  expect(url.pathname).toBe("/v1/sessions/sesn_1/events");
  expect(url.searchParams.getAll("event_deltas[]")).toEqual(["agent.message", "agent.thinking"]);
  expect(url.searchParams.get("after")).toBe("a&b=c d");
});

test("a body that the gateway encoded is decoded", async () => {
  const body = Buffer.from("ünï").toString("base64");

  expect(await ask("PUT", "/", { body, isBase64Encoded: true })).toMatchObject({ body: "ünï" });
});

test("a body that came with a GET is left out", async () => {
  expect(await ask("GET", "/", { body: "x" })).toMatchObject({ method: "GET", body: "" });
});

test("text is answered as text, anything else in base64", async () => {
  const json = await answerOf(Response.json({ a: "ü" }, { status: 201, headers: { "request-id": "req_1" } }));
  const bytes = await answerOf(new Response(new Uint8Array([0, 255]), { headers: { "content-type": "image/png" } }));

  expect(json).toEqual({
    statusCode: 201,
    headers: { "content-type": "application/json", "request-id": "req_1" },
    body: '{"a":"ü"}',
    isBase64Encoded: false,
  });
  expect(bytes).toMatchObject({ body: "AP8=", isBase64Encoded: true });
});

test("between a deployment's code and its variables a client is told to come again: nothing was written", async () => {
  const app = () => {
    throw new EnvironmentError("MANGO_LIVE_TABLE is not set.");
  };
  const response = await respond(app, gatewayEvent("POST", "/v1/agents"));

  expect(response.status).toBe(503);
  expect(response.headers.get("retry-after")).toBe("5");
  expect(response.headers.get("x-should-retry")).toBeNull();
  expect(await response.json()).toEqual({
    type: "error",
    error: { type: "overloaded_error", message: expect.stringMatching(/nothing was done/) },
    request_id: "gateway-1",
  });
});

test.each([
  ["the app fails", () => ({ fetch: () => Promise.reject(new Error("Key (text)=(Hello) exists")) }), "GET"],
  ["the method is none that a Request takes", echo, "TRACE"],
])("when %s, the answer is an error in the envelope that quotes nothing", async (_, app, method) => {
  const response = await respond(app, gatewayEvent(method, "/v1/agents"));

  expect(response.status).toBe(500);
  expect(response.headers.get("request-id")).toBe("gateway-1");
  expect(response.headers.get("x-should-retry")).toBe("false");
  expect(await response.json()).toEqual({
    type: "error",
    error: { type: "api_error", message: expect.stringMatching(/^An internal error occurred/) },
    request_id: "gateway-1",
  });
});
