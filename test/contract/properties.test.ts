/** Any JSON in: never a 5xx, always the envelope from 400 on, never a partial write. */
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import { type Answer, apiOf, expectEnvelope, rowCounts } from "./api.ts";
import { customTool, newSession } from "./driver.ts";
import { verifies } from "./verifies.ts";

/** Printed, so that a failing run can be repeated. */
const SEED = 20_261_201;
const RUNS = 100;

let server: TestServer;
const known = { agent: "", archived: "", environment: "", session: "", ended: "", work: "work_nothing" };
beforeAll(async () => {
  server = await startTestServer();
  const api = apiOf(server);
  const session = await newSession(api, server.environmentId);
  const ended = await newSession(api, server.environmentId);
  await api.write(`/v1/sessions/${ended.id}/archive`);
  await api.write(`/v1/agents/${ended.agent.id}/archive`);
  Object.assign(known, {
    agent: session.agent.id,
    archived: ended.agent.id,
    environment: server.environmentId,
    session: session.id,
    ended: ended.id,
  });
  console.log(`fast-check seed ${SEED}`);
});
afterAll(() => server.close());

const AGENT = {
  name: "A",
  model: { id: "m", effort: "low" },
  system: "S",
  description: "D",
  tools: [
    customTool("lookup"),
    {
      type: "agent_toolset_20260401",
      default_config: { enabled: true },
      configs: [{ name: "bash", enabled: true, permission_policy: { type: "always_ask" } }],
    },
    { type: "mcp_toolset", mcp_server_name: "issues", default_config: { enabled: false }, configs: [{ name: "list" }] },
  ],
  mcp_servers: [{ type: "url", name: "issues", url: "https://mcp.example/mcp" }],
  metadata: { a: "1" },
};
const EVENTS = [
  {
    type: "user.message",
    content: [
      { type: "text", text: "x" },
      { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "x" }, title: "T", context: "C" },
    ],
  },
  { type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "deny", deny_message: "No." },
  { type: "user.tool_result", tool_use_id: "sevt_1", content: [{ type: "text", text: "x" }], is_error: true },
  {
    type: "user.custom_tool_result",
    custom_tool_use_id: "sevt_1",
    content: [
      {
        type: "search_result",
        source: "s",
        title: "t",
        content: [{ type: "text", text: "x" }],
        citations: { enabled: true },
      },
    ],
  },
  { type: "user.define_outcome", description: "d", rubric: { type: "text", content: "r" } },
  { type: "system.message", content: [{ type: "text", text: "x" }] },
];

interface Route {
  readonly path: () => string;
  readonly valid: () => unknown;
}
/** Every POST route of the resources; the sessions and events that runs create are deleted from no table. */
const ROUTES: Readonly<Record<string, Route>> = {
  "create an agent": { path: () => "/v1/agents", valid: () => AGENT },
  "update an agent": { path: () => `/v1/agents/${known.agent}`, valid: () => ({ ...AGENT, version: 1 }) },
  "archive an agent": { path: () => `/v1/agents/${known.archived}/archive`, valid: () => ({}) },
  "create an environment": {
    path: () => "/v1/environments",
    valid: () => ({
      name: "E",
      config: { type: "self_hosted" },
      description: "D",
      metadata: { a: "1" },
      scope: "account",
    }),
  },
  "update an environment": {
    path: () => `/v1/environments/${known.environment}`,
    valid: () => ({ name: "E", config: { type: "self_hosted" }, description: null, metadata: { a: null } }),
  },
  "create a session": {
    path: () => "/v1/sessions",
    valid: () => ({
      agent: {
        type: "agent_with_overrides",
        id: known.agent,
        version: 1,
        model: "m",
        system: null,
        tools: AGENT.tools,
        mcp_servers: AGENT.mcp_servers,
        skills: [],
      },
      environment_id: known.environment,
      title: "T",
      metadata: { a: "1" },
      vault_ids: [],
      resources: [],
      budget: null,
      initial_events: [],
    }),
  },
  "update a session": {
    path: () => `/v1/sessions/${known.session}`,
    valid: () => ({
      title: "T",
      metadata: { a: null },
      agent: { tools: AGENT.tools, mcp_servers: AGENT.mcp_servers },
      vault_ids: [],
    }),
  },
  "archive a session": { path: () => `/v1/sessions/${known.ended}/archive`, valid: () => ({}) },
  "send events": { path: () => `/v1/sessions/${known.session}/events`, valid: () => ({ events: EVENTS }) },
  "ack a work item": { path: () => `/v1/environments/${known.environment}/work/${known.work}/ack`, valid: () => ({}) },
  heartbeat: { path: () => `/v1/environments/${known.environment}/work/${known.work}/heartbeat`, valid: () => ({}) },
  "stop a work item": {
    path: () => `/v1/environments/${known.environment}/work/${known.work}/stop`,
    valid: () => ({ force: true }),
  },
};

/** No route is asked through the document's check: what counts here is told by the status. */
async function post(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await fetch(`${server.url}${path}`, {
    method: "POST",
    body,
    headers: { "x-api-key": API_KEY, "content-type": "application/json", ...headers },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}

/** Waits until no turn runs that an accepted message has started, and nothing of it is to be relayed. */
async function quiet(): Promise<void> {
  const busy = "select 1 from sessions where status = 'running' union all select 1 from outbox limit 1";
  await expect.poll(async () => (await server.database.pool.query(busy)).rowCount, { timeout: 10_000 }).toBe(0);
}

async function holds(path: string, body: string): Promise<void> {
  const before = await rowCounts(server);
  const answer = await post(path, body);
  expect({ body: body.slice(0, 500), answer: answer.text, status: answer.status }).toMatchObject({
    status: expect.toSatisfy((status: number) => status < 500),
  });
  if (answer.status < 400) return quiet();
  expectEnvelope(answer);
  expect(await rowCounts(server)).toEqual(before);
}

/** JSON with the keys and the values that the schemas know, so that it gets past the first check. */
const KEYS = [
  "name",
  "model",
  "id",
  "type",
  "tools",
  "configs",
  "metadata",
  "version",
  "agent",
  "environment_id",
  "events",
  "content",
  "text",
  "source",
  "initial_events",
  "system",
  "config",
  "title",
  "tool_use_id",
  "result",
  "__proto__",
  "constructor",
];
const VALUES = [
  "",
  "m",
  "agent",
  "custom",
  "user.message",
  "user.tool_result",
  "text",
  "image",
  "base64",
  "self_hosted",
  "\u0000",
  "\uD800",
  "\u{1F96D}",
  "%00",
  "9".repeat(400),
];
const leaf = fc.oneof(
  fc.constantFrom(null, true, false, 0, -1, 1.5, 1e308, Number.MAX_SAFE_INTEGER + 1, [], {}),
  fc.constantFrom(...VALUES),
  fc.string({ unit: "binary", maxLength: 30 }),
);
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "medium", withCrossShrink: true },
    leaf,
    fc.array(tie("tree"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...KEYS), fc.string({ maxLength: 8 })), tie("tree"), { maxKeys: 6 }),
  ),
}));

for (const [name, route] of Object.entries(ROUTES)) {
  verifies("robustness:any-json", name, async () => {
    const bodies = fc.oneof(
      tree.map((value) => JSON.stringify(value)),
      fc.json({ maxDepth: 4 }),
      fc.string({ unit: "binary", maxLength: 40 }),
    );
    await fc.assert(
      fc.asyncProperty(bodies, (body) => holds(route.path(), body)),
      { seed: SEED, numRuns: RUNS, endOnFailure: false },
    );
  });
  verifies("robustness:mutated", name, async () => {
    const paths = fc.array(fc.nat(7), { minLength: 1, maxLength: 6 });
    const change = fc.tuple(paths, fc.constantFrom("replace", "remove", "add", "double"), tree);
    await fc.assert(
      fc.asyncProperty(change, ([where, how, value]) =>
        holds(route.path(), JSON.stringify(mutated(route.valid(), where, how, value))),
      ),
      { seed: SEED, numRuns: RUNS, endOnFailure: false },
    );
  });
}

/** A copy with one thing changed, somewhere on the way that the numbers choose. */
function mutated(whole: unknown, where: readonly number[], how: string, value: unknown): unknown {
  const copy = structuredClone(whole) as Record<string, unknown>;
  let node: Record<string, unknown> = copy;
  for (const [depth, step] of where.entries()) {
    const keys = Object.keys(node);
    const key = keys[step % Math.max(keys.length, 1)];
    if (key === undefined) break;
    const child = node[key];
    if (depth < where.length - 1 && typeof child === "object" && child !== null) {
      node = child as Record<string, unknown>;
      continue;
    }
    if (how === "replace") node[key] = value;
    else if (how === "remove" && !Array.isArray(node)) delete node[key];
    else if (how === "add") node["extra"] = value;
    else node[key] = [child, child];
    break;
  }
  return copy;
}

const GETS = [
  "/v1/agents",
  "/v1/agents/ID",
  "/v1/agents/ID/versions",
  "/v1/environments",
  "/v1/sessions",
  "/v1/sessions/ID",
  "/v1/sessions/ID/events",
  "/v1/sessions/ID/threads",
  "/v1/sessions/ID/threads/ID/events",
];
const PARAMETERS = [
  "limit",
  "page",
  "order",
  "version",
  "agent_version",
  "agent_id",
  "include_archived",
  "statuses[]",
  "stop_reasons[]",
  "types[]",
  "created_at[gt]",
  "created_at[lte]",
  "created_at",
  "limit[]",
  "page[x]",
];
const queryValue = fc.oneof(
  fc.constantFrom(
    "",
    "1",
    "0",
    "-1",
    "1e3",
    "true",
    "idle",
    "asc",
    "2026-12-01T00:00:00Z",
    "9999-99-99T00:00:00Z",
    "+275760-09-13T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "99999999999999999999",
    "null",
    "bnVsbA",
    "e30",
    "W10",
  ),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.base64String({ maxLength: 60 }),
);
verifies("robustness:query", async () => {
  const ids = { agents: known.agent, sessions: known.session, threads: "sthr_nothing" };
  const query = fc.array(fc.tuple(fc.constantFrom(...PARAMETERS), queryValue), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...GETS), query, async (route, pairs) => {
      const path = route.replaceAll(
        /(agents|sessions|threads)\/ID/g,
        (_, noun: keyof typeof ids) => `${noun}/${ids[noun]}`,
      );
      const text = pairs
        .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value.toWellFormed())}`)
        .join("&");
      const response = await fetch(`${server.url}${path}?${text}`, { headers: { "x-api-key": API_KEY } });
      const body = await response.text();
      expect({ path, text, status: response.status, body }).toMatchObject({
        status: expect.toSatisfy((status: number) => status < 500),
      });
      if (response.status >= 400)
        expectEnvelope({ status: response.status, headers: response.headers, text: body, body: JSON.parse(body) });
    }),
    { seed: SEED, numRuns: 400, endOnFailure: false },
  );
});
