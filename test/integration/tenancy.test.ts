import { afterAll, beforeAll, expect, test } from "vitest";
import { ensureWorkspace, setApiKey } from "../../shared/workspaces/keys.ts";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { customResult, customTool, isTurnEnd, message, SessionDriver } from "../e2e/session-driver.ts";
import { countRows, send } from "./refusals.ts";

const OTHER_KEY = "sk-mango-other-key-000000";
let scripted: ScriptedServer;
let victim: SessionDriver;
const own = { agent: "", environment: "" };
const theirs = { agent: "", session: "", thread: "", environment: "", call: "", work: "", key: "" };

const request = (path: string, json?: unknown, method?: string) =>
  send(scripted.server, { path, key: OTHER_KEY, ...(json !== undefined && { json }), ...(method && { method }) });
const idOf = async (response: Promise<Response>) => ((await (await response).json()) as { id: string }).id;

beforeAll(async () => {
  scripted = await startScriptedServer();
  const { pool } = scripted.server.database;
  await ensureWorkspace(pool, { id: "wrkspc_other", name: "other" });
  await setApiKey(pool, { workspaceId: "wrkspc_other", name: "other", secret: OTHER_KEY });
  own.agent = await idOf(request("/v1/agents", { name: "Mine", model: "m" }));
  own.environment = await idOf(request("/v1/environments", { name: "Mine", config: { type: "self_hosted" } }));

  await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "x" }), toolUse("toolu_2", "bash", {})), says("Done."));
  const tools = [customTool("lookup"), { type: "agent_toolset_20260401" }];
  victim = await SessionDriver.open(scripted.server, { tools });
  await victim.send(message("a secret task"));
  const [use] = await victim.untilAsked();
  const session = (await (await scripted.server.request(`/v1/sessions/${victim.id}`)).json()) as {
    agent: { id: string };
  };
  const { rows } = await pool.query<{ id: string }>("select id from work_items where session_id = $1", [victim.id]);
  const threads = await pool.query<{ id: string }>("select id from threads where session_id = $1", [victim.id]);
  Object.assign(theirs, {
    thread: threads.rows[0]?.id,
    agent: session.agent.id,
    session: victim.id,
    environment: scripted.server.environmentId,
    call: use?.id,
    work: rows[0]?.id,
    key: await idOf(
      scripted.server.request(`/v1/environments/${scripted.server.environmentId}/keys`, { json: { name: "K" } }),
    ),
  });
});
afterAll(async () => {
  victim.close();
  await scripted.close();
});

const thread = (rest: string) => `/v1/sessions/${theirs.session}/threads/${theirs.thread}${rest}`;

/** Every route with an id, as the served document names it, with the other workspace's ids. */
const routes: readonly (readonly [string, () => readonly [path: string, json?: unknown, method?: string]])[] = [
  ["get /v1/agents/{agent_id}", () => [`/v1/agents/${theirs.agent}`]],
  ["post /v1/agents/{agent_id}", () => [`/v1/agents/${theirs.agent}`, { name: "Stolen" }]],
  ["post /v1/agents/{agent_id}/archive", () => [`/v1/agents/${theirs.agent}/archive`, undefined, "POST"]],
  ["get /v1/agents/{agent_id}/versions", () => [`/v1/agents/${theirs.agent}/versions`]],
  ["get /v1/environments/{environment_id}", () => [`/v1/environments/${theirs.environment}`]],
  ["post /v1/environments/{environment_id}", () => [`/v1/environments/${theirs.environment}`, { name: "Stolen" }]],
  ["delete /v1/environments/{environment_id}", () => [`/v1/environments/${theirs.environment}`, undefined, "DELETE"]],
  [
    "post /v1/environments/{environment_id}/archive",
    () => [`/v1/environments/${theirs.environment}/archive`, undefined, "POST"],
  ],
  ["get /v1/sessions/{session_id}", () => [`/v1/sessions/${theirs.session}`]],
  ["post /v1/sessions/{session_id}", () => [`/v1/sessions/${theirs.session}`, { title: "Stolen" }]],
  ["delete /v1/sessions/{session_id}", () => [`/v1/sessions/${theirs.session}`, undefined, "DELETE"]],
  ["post /v1/sessions/{session_id}/archive", () => [`/v1/sessions/${theirs.session}/archive`, undefined, "POST"]],
  ["get /v1/sessions/{session_id}/events", () => [`/v1/sessions/${theirs.session}/events`]],
  [
    "post /v1/sessions/{session_id}/events",
    () => [`/v1/sessions/${theirs.session}/events`, { events: [message("hi")] }],
  ],
  ["get /v1/sessions/{session_id}/events/stream", () => [`/v1/sessions/${theirs.session}/events/stream`]],
  ["get /v1/sessions/{session_id}/threads", () => [`/v1/sessions/${theirs.session}/threads`]],
  ["get /v1/sessions/{session_id}/threads/{thread_id}", () => [thread("")]],
  ["get /v1/sessions/{session_id}/threads/{thread_id}/events", () => [thread("/events")]],
  ["get /v1/sessions/{session_id}/threads/{thread_id}/stream", () => [thread("/stream")]],
  ["post /v1/sessions/{session_id}/threads/{thread_id}/archive", () => [thread("/archive"), undefined, "POST"]],
  ["get /v1/environments/{environment_id}/keys", () => [`/v1/environments/${theirs.environment}/keys`]],
  ["post /v1/environments/{environment_id}/keys", () => [`/v1/environments/${theirs.environment}/keys`, { name: "K" }]],
  [
    "post /v1/environments/{environment_id}/keys/{key_id}/rotate",
    () => [`/v1/environments/${theirs.environment}/keys/${theirs.key}/rotate`, undefined, "POST"],
  ],
  [
    "post /v1/environments/{environment_id}/keys/{key_id}/revoke",
    () => [`/v1/environments/${theirs.environment}/keys/${theirs.key}/revoke`, undefined, "POST"],
  ],
  [
    "post /v1/environments/{environment_id}/healthcheck",
    () => [`/v1/environments/${theirs.environment}/healthcheck`, undefined, "POST"],
  ],
  ["get /v1/environments/{environment_id}/work", () => [`/v1/environments/${theirs.environment}/work`]],
  ["get /v1/environments/{environment_id}/work/stats", () => [`/v1/environments/${theirs.environment}/work/stats`]],
  [
    "get /v1/environments/{environment_id}/work/{work_id}",
    () => [`/v1/environments/${theirs.environment}/work/${theirs.work}`],
  ],
  [
    "post /v1/environments/{environment_id}/work/{work_id}",
    () => [`/v1/environments/${theirs.environment}/work/${theirs.work}`, { metadata: { a: "stolen" } }],
  ],
  [
    "post /v1/environments/{environment_id}/work/{work_id}/fail",
    () => [`/v1/environments/${theirs.environment}/work/${theirs.work}/fail`, { message: "stolen" }],
  ],
  ["get /v1/environments/{environment_id}/work/poll", () => [`/v1/environments/${theirs.environment}/work/poll`]],
  [
    "post /v1/environments/{environment_id}/work/{work_id}/ack",
    () => [`/v1/environments/${theirs.environment}/work/${theirs.work}/ack`, undefined, "POST"],
  ],
  [
    "post /v1/environments/{environment_id}/work/{work_id}/heartbeat",
    () => [
      `/v1/environments/${theirs.environment}/work/${theirs.work}/heartbeat?expected_last_heartbeat=NO_HEARTBEAT`,
      undefined,
      "POST",
    ],
  ],
  [
    "post /v1/environments/{environment_id}/work/{work_id}/stop",
    () => [`/v1/environments/${theirs.environment}/work/${theirs.work}/stop`, { force: true }],
  ],
];

/** Routes of an item that only workers may use: there a key of an application may also hear that it may not. */
const forWorkers = /\/work\//;

test.each(routes)("%s does not know the other workspace's ids", async (route, target) => {
  const before = await countRows(scripted.server);
  const ledger = await victim.list();
  const [path, json, method] = target();
  const response = await request(path, json, method);
  const text = await response.text();
  const allowed = forWorkers.test(route) ? [403, 404] : [404];
  expect({ allowed, status: response.status, text }).toMatchObject({ status: expect.toBeOneOf(allowed) });
  expect(text).not.toContain("secret");
  expect(await countRows(scripted.server)).toEqual(before);
  expect(await victim.list()).toEqual(ledger);
});

const references: readonly (readonly [string, () => readonly [path: string, json: unknown]])[] = [
  ["an agent", () => ["/v1/sessions", { agent: theirs.agent, environment_id: own.environment }]],
  [
    "an agent's version",
    () => ["/v1/sessions", { agent: { type: "agent", id: theirs.agent, version: 1 }, environment_id: own.environment }],
  ],
  ["an environment", () => ["/v1/sessions", { agent: own.agent, environment_id: theirs.environment }]],
];
test.each(references)("a session cannot be made of the other workspace's things: %s", async (_case, target) => {
  const before = await countRows(scripted.server);
  const response = await request(...target());
  expect(response.status).toBe(404);
  expect(await countRows(scripted.server)).toEqual(before);
});

test("a call of another session cannot be answered through one's own", async () => {
  const session = await idOf(request("/v1/sessions", { agent: own.agent, environment_id: own.environment }));
  for (const answer of [
    { type: "user.custom_tool_result", custom_tool_use_id: theirs.call, content: [{ type: "text", text: "x" }] },
    { type: "user.tool_result", tool_use_id: theirs.call, content: [{ type: "text", text: "x" }] },
    { type: "user.tool_confirmation", tool_use_id: theirs.call, result: "allow" },
  ]) {
    const response = await request(`/v1/sessions/${session}/events`, { events: [answer] });
    expect(response.status).toBe(404);
  }
});

test("what is listed is one's own", async () => {
  for (const path of ["/v1/agents?limit=100", "/v1/environments?limit=100", "/v1/sessions?limit=100"]) {
    const response = await request(path);
    const text = await response.text();
    // Until a list is built it is not there for anybody.
    expect([200, 404]).toContain(response.status);
    for (const id of Object.values(theirs)) expect(text).not.toContain(id);
  }
});

test("a workspace header of somebody else's does not help", async () => {
  const headers = { "anthropic-workspace-id": "wrkspc_local" };
  const response = await send(scripted.server, { path: `/v1/sessions/${theirs.session}`, key: OTHER_KEY, headers });
  expect([400, 401, 403, 404]).toContain(response.status);
});

test("the table above names every route that the server serves", async () => {
  const document = (await (await scripted.server.request("/openapi.json")).json()) as { paths: Record<string, object> };
  const served = Object.entries(document.paths).flatMap(([path, methods]) =>
    path.startsWith("/v1/") && path.includes("{") ? Object.keys(methods).map((method) => `${method} ${path}`) : [],
  );
  const known = new Set(routes.map(([route]) => route));
  expect(served.filter((route) => !known.has(route))).toEqual([]);
});

test("after all that the victim's own turn goes on as if nothing had been", async () => {
  const uses = (await victim.list()).filter(({ type }) => type.endsWith("tool_use"));
  const [lookup, bash] = uses;
  if (!lookup || !bash) throw new Error("The calls are gone.");
  await victim.send(customResult(lookup, "found"), { type: "user.tool_result", tool_use_id: bash.id });
  await victim.until(isTurnEnd);
});
