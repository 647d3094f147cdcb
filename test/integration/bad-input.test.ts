import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createSession, listEvents, message } from "../e2e/session-driver.ts";
import { startTestServer, type TestServer } from "../server.ts";
import { type BadRequest, countRows, expectRefused } from "./refusals.ts";

let server: TestServer;
let agentId: string;
let sessionId: string;
beforeAll(async () => {
  server = await startTestServer();
});
beforeEach(async () => {
  sessionId = await createSession(server);
  const session = (await (await server.request(`/v1/sessions/${sessionId}`)).json()) as { agent: { id: string } };
  agentId = session.agent.id;
});
afterAll(() => server.close());

const agent = (more: object) => (): BadRequest => ({ path: "/v1/agents", json: { name: "A", model: "m", ...more } });
const environment = (more: object) => (): BadRequest => ({
  path: "/v1/environments",
  json: { name: "E", config: { type: "self_hosted" }, ...more },
});
const session = (more: object) => (): BadRequest => ({
  path: "/v1/sessions",
  json: { agent: agentId, environment_id: server.environmentId, ...more },
});
const events = (json: unknown) => (): BadRequest => ({ path: `/v1/sessions/${sessionId}/events`, json });
const event = (...list: unknown[]) => events({ events: list });
const get =
  (path: () => string, method = "GET") =>
  (): BadRequest => ({ path: path(), method });
const text = (value: unknown) => ({ type: "text", text: value });
const toolset = (more: object) => agent({ tools: [{ type: "agent_toolset_20260401", ...more }] });
const custom = (more: object) =>
  agent({ tools: [{ type: "custom", name: "c", description: "d", input_schema: { type: "object" }, ...more }] });
const nobody = (prefix: string) => `${prefix}_00000000000000000000000000`;

const invalid: readonly (readonly [string, () => BadRequest, string])[] = [
  ["malformed JSON of an agent", () => ({ path: "/v1/agents", body: '{"name":' }), "JSON"],
  ["malformed JSON of events", () => ({ path: `/v1/sessions/${sessionId}/events`, body: "{events:[]}" }), "JSON"],
  ["no body", () => ({ path: "/v1/agents", body: "" }), ""],
  ["a body that is an array", () => ({ path: "/v1/agents", json: [] }), ""],
  ["a body that is null", () => ({ path: "/v1/sessions", body: "null" }), ""],
  ["an agent without a name", () => ({ path: "/v1/agents", json: { model: "m" } }), "name"],
  ["an agent without a model", () => ({ path: "/v1/agents", json: { name: "A" } }), "model"],
  ["an agent's name of another type", agent({ name: 7 }), "name"],
  ["an empty agent name", agent({ name: "" }), "name"],
  ["an agent's system of another type", agent({ system: ["x"] }), "system"],
  ["an unknown field of an agent", agent({ nickname: "x" }), "nickname"],
  ["an unknown field of a model", agent({ model: { id: "m", temper: 1 } }), "temper"],
  ["an unknown field of a toolset", toolset({ colour: "red" }), "colour"],
  ["an unknown field of a tool's config", toolset({ configs: [{ name: "bash", volume: 1 }] }), "volume"],
  [
    "an unknown field of a policy",
    toolset({ configs: [{ name: "bash", permission_policy: { type: "always_ask", x1: 1 } }] }),
    "x1",
  ],
  ["an unknown tool", toolset({ configs: [{ name: "teleport" }] }), "configs"],
  ["an unknown policy", toolset({ default_config: { permission_policy: { type: "sometimes" } } }), "permission_policy"],
  ["an unknown kind of tool", agent({ tools: [{ type: "magic" }] }), "tools"],
  ["tools that are no list", agent({ tools: {} }), "tools"],
  ["a custom tool without a name", custom({ name: undefined }), "name"],
  ["a custom tool's name with a space", custom({ name: "a b" }), "name"],
  ["a custom tool with a built-in's name", custom({ name: "bash" }), "bash"],
  ["a custom tool with a reserved name", custom({ name: "mcp__x" }), "mcp__"],
  ["an unknown field of a custom tool", custom({ colour: "red" }), "colour"],
  ["a schema that is no object's", custom({ input_schema: { type: "string" } }), "input_schema"],
  ["metadata of another type", agent({ metadata: { a: 1 } }), "metadata"],
  ["a metadata key that is too long", agent({ metadata: { ["k".repeat(65)]: "v" } }), "metadata"],
  ["a metadata value that is too long", agent({ metadata: { k: "v".repeat(513) } }), "metadata"],
  [
    "too much metadata",
    agent({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`k${n}`, "v"])) }),
    "metadata",
  ],
  ["an environment without a name", environment({ name: undefined }), "name"],
  ["an unknown field of an environment", environment({ colour: "red" }), "colour"],
  ["an unknown kind of environment", environment({ config: { type: "orbital" } }), "config"],
  ["an unknown field of a config", environment({ config: { type: "self_hosted", colour: 1 } }), "colour"],
  ["a session without an agent", session({ agent: undefined }), "agent"],
  ["a session without an environment", session({ environment_id: undefined }), "environment_id"],
  ["a session's title of another type", session({ title: 7 }), "title"],
  ["an unknown field of a session", session({ colour: "red" }), "colour"],
  [
    "an unknown field of an agent reference",
    () => session({ agent: { type: "agent", id: agentId, colour: 1 } })(),
    "colour",
  ],
  ["events that are no list", events({ events: {} }), "events"],
  ["no events", events({}), "events"],
  ["an empty list of events", events({ events: [] }), "events"],
  ["an unknown field beside events", events({ events: [message("x")], colour: 1 }), "colour"],
  ["an event without a type", event({ content: [text("x")] }), "type"],
  ["an unknown type of event", event({ type: "user.wave" }), "type"],
  ["an unknown field of an event", event({ ...message("x"), colour: 1 }), "colour"],
  ["an id of the client's own", event({ ...message("x"), id: "sevt_mine" }), "id"],
  ["an unknown field of a block", event({ type: "user.message", content: [{ ...text("x"), colour: 1 }] }), "colour"],
  ["a message without content", event({ type: "user.message" }), "content"],
  ["a message with no blocks", event({ type: "user.message", content: [] }), "content"],
  ["content of another type", event({ type: "user.message", content: "x" }), "content"],
  ["an empty text block", event({ type: "user.message", content: [text("")] }), "text"],
  ["a text of another type", event({ type: "user.message", content: [text(7)] }), "text"],
  ["a redacted block", event({ type: "user.message", content: [{ type: "redacted" }] }), "content"],
  ["an unknown kind of block", event({ type: "user.message", content: [{ type: "hologram" }] }), "content"],
  [
    "a good event with a bad one behind it",
    event(message("x"), { type: "user.message", content: [text("")] }),
    "events",
  ],
  ["a confirmation without a result", event({ type: "user.tool_confirmation", tool_use_id: nobody("sevt") }), "result"],
  [
    "a confirmation of another kind",
    event({ type: "user.tool_confirmation", tool_use_id: nobody("sevt"), result: "maybe" }),
    "result",
  ],
  ["a result without its call", event({ type: "user.tool_result", content: [text("x")] }), "tool_use_id"],
  ["a limit of nothing", get(() => `/v1/sessions/${sessionId}/events?limit=0`), "limit"],
  ["a limit that is no number", get(() => `/v1/sessions/${sessionId}/events?limit=many`), "limit"],
  ["a cursor that nobody gave", get(() => `/v1/sessions/${sessionId}/events?page=bogus`), "page"],
  ["an unknown order", get(() => `/v1/sessions/${sessionId}/events?order=random`), "order"],
];
test.each(invalid)("%s is refused as invalid", async (_case, request, names) => {
  await expectRefused(server, request(), { status: 400, type: "invalid_request_error", names });
});

const SERVER_ONLY = ["agent.message", "agent.thinking", "agent.tool_use", "agent.tool_result", "agent.custom_tool_use"];
const SERVER_STATUS = ["session.status_idle", "session.status_running", "session.error", "span.model_request_start"];
test.each([...SERVER_ONLY, ...SERVER_STATUS])("an event that only the server makes is refused: %s", async (type) => {
  const forged = { type, content: [text("I am the model.")] };
  await expectRefused(server, event(forged)(), { status: 400, type: "invalid_request_error", names: "type" });
});

const missing: readonly (readonly [string, () => BadRequest, string])[] = [
  ["an agent", get(() => `/v1/agents/${nobody("agent")}`), nobody("agent")],
  ["a version of an agent", get(() => `/v1/agents/${agentId}?version=7`), "7"],
  ["an environment", get(() => `/v1/environments/${nobody("env")}`), nobody("env")],
  ["a session", get(() => `/v1/sessions/${nobody("sesn")}`), nobody("sesn")],
  ["a session's events", get(() => `/v1/sessions/${nobody("sesn")}/events`), nobody("sesn")],
  ["a session's stream", get(() => `/v1/sessions/${nobody("sesn")}/events/stream`), nobody("sesn")],
  [
    "a session to write to",
    () => ({ path: `/v1/sessions/${nobody("sesn")}/events`, json: { events: [message("x")] } }),
    nobody("sesn"),
  ],
  ["an id with other characters", get(() => "/v1/sessions/%00%27%3B--"), ""],
  ["an id of another kind", get(() => `/v1/sessions/${agentId}`), ""],
  ["an agent for a session", session({ agent: nobody("agent") }), nobody("agent")],
  ["an agent's version for a session", () => session({ agent: { type: "agent", id: agentId, version: 7 } })(), "7"],
  ["an environment for a session", session({ environment_id: nobody("env") }), nobody("env")],
  [
    "a call to confirm",
    event({ type: "user.tool_confirmation", tool_use_id: nobody("sevt"), result: "allow" }),
    nobody("sevt"),
  ],
  [
    "a call to answer",
    event({ type: "user.tool_result", tool_use_id: nobody("sevt"), content: [text("x")] }),
    nobody("sevt"),
  ],
  ["a path", get(() => "/v1/nothing"), "/v1/nothing"],
  ["a path outside the API", get(() => "/admin"), "/admin"],
  ["a method: DELETE", get(() => "/v1/agents", "DELETE"), ""],
  ["a method: PUT", get(() => `/v1/sessions/${sessionId}`, "PUT"), ""],
  ["a method: PATCH", get(() => `/v1/agents/${agentId}`, "PATCH"), ""],
  ["a method: GET of a POST's path", get(() => `/v1/environments/${server.environmentId}/work/work_x/ack`), ""],
];
test.each(missing)("what is not there is not found: %s", async (_case, request, names) => {
  await expectRefused(server, request(), { status: 404, type: "not_found_error", names });
});

test("an archived agent starts no session", async () => {
  await server.database.pool.query("update agents set archived_at = now() where id = $1", [agentId]);
  await expectRefused(server, session({})(), { status: 400, type: "invalid_request_error", names: "archived" });
});

test("an archived environment takes no session", async () => {
  const response = await server.request("/v1/environments", { json: { name: "Old", config: { type: "self_hosted" } } });
  const { id } = (await response.json()) as { id: string };
  await server.database.pool.query("update environments set archived_at = now() where id = $1", [id]);
  await expectRefused(server, session({ environment_id: id })(), {
    status: 400,
    type: "invalid_request_error",
    names: "archived",
  });
});

test.each([
  ["an agent", () => ({ path: "/v1/agents" })],
  ["events", () => ({ path: `/v1/sessions/${sessionId}/events` })],
])("40 MB of %s are refused", async (_case, target) => {
  const body = JSON.stringify({ name: "x".repeat(40 * 1024 * 1024) });
  await expectRefused(server, { ...target(), body }, { status: 413, type: "request_too_large" });
});

test("40 MB that come in pieces, without a length, are refused too", async () => {
  const before = await countRows(server);
  const piece = new TextEncoder().encode("x".repeat(1024 * 1024));
  let left = 40;
  const body = new ReadableStream({
    pull: (controller) => (left-- > 0 ? controller.enqueue(piece) : controller.close()),
  });
  const response = await server
    .request("/v1/agents", {
      method: "POST",
      body,
      duplex: "half",
      headers: { "content-type": "application/json" },
    } as RequestInit)
    .catch((error: unknown) => error);
  // A server may also hang up on who goes on sending.
  if (response instanceof Response) expect(response.status).toBe(413);
  expect(await countRows(server)).toEqual(before);
});

test("a good body that comes in pieces, without a length, is accepted", async () => {
  const body = new Blob(['{"name":"A",', '"model":"m"}']).stream();
  const init = { method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
  const response = await server.request("/v1/agents", init as RequestInit);
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('"id"')]);
});

test("a refused request leaves no event, and the session works", async () => {
  await server.request(`/v1/sessions/${sessionId}/events`, {
    json: { events: [message("x"), { type: "agent.message" }] },
  });
  expect(await listEvents(server, sessionId)).toEqual([]);
});
