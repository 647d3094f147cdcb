import { afterAll, beforeAll, expect, test } from "vitest";
import { createSession, message } from "../e2e/session-driver.ts";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import { expectRefused } from "./refusals.ts";

let server: TestServer;
let sessionId: string;
beforeAll(async () => {
  server = await startTestServer();
  sessionId = await createSession(server);
});
afterAll(() => server.close());

const routes = (): readonly (readonly [string, { path: string; json?: unknown }])[] => [
  ["create an agent", { path: "/v1/agents", json: { name: "A", model: "m" } }],
  ["create an environment", { path: "/v1/environments", json: { name: "E", config: { type: "self_hosted" } } }],
  ["create a session", { path: "/v1/sessions", json: { agent: "agent_x", environment_id: server.environmentId } }],
  ["read a session", { path: `/v1/sessions/${sessionId}` }],
  ["send events", { path: `/v1/sessions/${sessionId}/events`, json: { events: [message("hello")] } }],
  ["list events", { path: `/v1/sessions/${sessionId}/events` }],
  ["stream events", { path: `/v1/sessions/${sessionId}/events/stream` }],
  ["poll for work", { path: `/v1/environments/${server.environmentId}/work/poll` }],
];
const names = ["create an agent", "create an environment", "create a session", "read a session", "send events"];
const more = ["list events", "stream events", "poll for work"];
const route = (name: string) => {
  const found = routes().find(([title]) => title === name);
  if (found === undefined) throw new Error(`No route to ${name}.`);
  return found[1];
};

const bad = [
  ["no key", {}],
  ["an unknown key", { "x-api-key": "sk-mango-somebody-else" }],
  ["an empty key", { "x-api-key": "" }],
  ["an unknown bearer", { authorization: "Bearer sk-mango-somebody-else" }],
  ["a bearer of another scheme", { authorization: `Basic ${API_KEY}` }],
  ["two keys, both good", { "x-api-key": API_KEY, authorization: `Bearer ${API_KEY}` }],
  ["two keys, one good", { "x-api-key": API_KEY, authorization: "Bearer nonsense" }],
  ["a key with a NUL in it, percent-encoded", { "x-api-key": "sk%00" }],
] as const;
const table = [...names, ...more].flatMap((name) => bad.map(([title, headers]) => [name, title, headers] as const));
test.each(table)("%s with %s: 401", async (name, _title, headers) => {
  await expectRefused(server, { ...route(name), key: null, headers }, { status: 401, type: "authentication_error" });
});

test.each([
  ["x-api-key", { "x-api-key": API_KEY }],
  ["authorization: Bearer", { authorization: `Bearer ${API_KEY}` }],
  ["authorization: bearer", { authorization: `bearer ${API_KEY}` }],
])("the key opens the API from %s", async (_case, headers) => {
  const response = await fetch(`${server.url}/v1/sessions/${sessionId}`, { headers });
  expect(response.status).toBe(200);
});

const forApplications = [...names, "list events", "stream events"];
test.each(forApplications)("an environment key may not %s", async (name) => {
  const request = { ...route(name), key: server.environmentKey };
  await expectRefused(server, request, { status: 403, type: "permission_error" });
});

test("an environment key is good for a poll", async () => {
  const response = await server.request(`/v1/environments/${server.environmentId}/work/poll`, {
    key: server.environmentKey,
  });
  expect([200, 204]).toContain(response.status);
  expect(["", "null"]).toContain(await response.text());
});

test("a revoked key opens nothing", async () => {
  const { pool } = server.database;
  await pool.query("update api_keys set revoked_at = now()");
  await expectRefused(server, route("read a session"), { status: 401, type: "authentication_error" });
  await pool.query("update api_keys set revoked_at = null");
});

test("no key is kept in the database, and none is in the log", async () => {
  const { rows } = await server.database.pool.query("select * from api_keys, environment_keys");
  const kept = JSON.stringify([rows, server.logs], (_key, value) =>
    value?.type === "Buffer" ? Buffer.from(value.data).toString("latin1") : value,
  );
  expect(kept).not.toContain(API_KEY);
  expect(kept).not.toContain(server.environmentKey);
});

test("health is open to all and says nothing but that", async () => {
  const answers = await Promise.all(["/healthz", "/readyz"].map((path) => fetch(`${server.url}${path}`)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
});
