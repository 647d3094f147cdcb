import { afterAll, beforeAll, expect, test } from "vitest";
import { createSession } from "../e2e/session-driver.ts";
import { startTestServer, type TestServer } from "../server.ts";
import { type BadRequest, countRows, expectRefused, send } from "./refusals.ts";

let server: TestServer;
let agentId: string;
let sessionId: string;
beforeAll(async () => {
  server = await startTestServer();
  sessionId = await createSession(server);
  const session = (await (await server.request(`/v1/sessions/${sessionId}`)).json()) as { agent: { id: string } };
  agentId = session.agent.id;
});
afterAll(() => server.close());

const agent = (more: object) => (): BadRequest => ({ path: "/v1/agents", json: { name: "A", model: "m", ...more } });
const session = (more: object) => (): BadRequest => ({
  path: "/v1/sessions",
  json: { agent: agentId, environment_id: server.environmentId, ...more },
});
const event =
  (...events: unknown[]) =>
  (): BadRequest => ({ path: `/v1/sessions/${sessionId}/events`, json: { events } });
const toolset = (more: object) => agent({ tools: [{ type: "agent_toolset_20260401", ...more }] });
const mcp = { type: "url", name: "issues", url: "https://issues.example/mcp" };

const unsupported: readonly (readonly [string, () => BadRequest, string])[] = [
  ["skills", agent({ skills: [{ type: "custom", skill_id: "skill_1" }] }), "skills"],
  ["multiagent", agent({ multiagent: { type: "coordinator", agents: [{ type: "self" }] } }), "multiagent"],
  ["cloud environments", () => ({ path: "/v1/environments", json: { name: "E", config: { type: "cloud" } } }), "cloud"],
  ["vault_ids", session({ vault_ids: ["vlt_1"] }), "vault_ids"],
  ["budget", session({ budget: { type: "limit", max_list_cost: { amount: "100", currency: "USD" } } }), "budget"],
  [
    "resources",
    session({ resources: [{ type: "memory_store", memory_store_id: "memstore_1", access: "read_write" }] }),
    "resources",
  ],
  [
    "user.define_outcome",
    event({ type: "user.define_outcome", description: "d", rubric: { type: "text", content: "r" } }),
    "user.define_outcome",
  ],
];
test.each(unsupported)("%s: not built yet, and the answer says so", async (_case, request, names) => {
  await expectRefused(server, request(), { status: 422, type: "invalid_request_error", names });
});

const built = { type: "agent_toolset_20260401" };
const only = (config: object) => [
  { ...built, default_config: { enabled: false }, configs: [{ enabled: true, ...config }] },
];
const auto = { permission_policy: { type: "auto" } };
const unusable: readonly (readonly [string, object, string])[] = [
  ["MCP servers", { mcp_servers: [mcp], tools: [{ type: "mcp_toolset", mcp_server_name: "issues" }] }, "MCP"],
  ["the policy auto for all tools", { tools: [{ ...built, default_config: auto }] }, "auto"],
  ["web_search", { tools: only({ name: "web_search" }) }, "web_search"],
  ["web_fetch", { tools: only({ name: "web_fetch" }) }, "web_fetch"],
];
const expectUnsupported = async (response: Response, names: string) => {
  const body = (await response.json()) as { error: { type: string; message: string } };
  expect([response.status, body.error.type, body.error.message]).toEqual([
    422,
    "invalid_request_error",
    expect.stringContaining(names),
  ]);
};

test.each(unusable)(
  "no session comes to have %s: the agent is refused, or the session made of it",
  async (_case, more, names) => {
    const before = (await countRows(server))["sessions"];
    const answer = await send(server, agent(more)());
    if (answer.status === 200) {
      const { id } = (await answer.json()) as { id: string };
      await expectUnsupported(await send(server, session({ agent: id })()), names);
    } else {
      await expectUnsupported(answer, names);
    }
    expect((await countRows(server))["sessions"]).toBe(before);
  },
);

test.each(unusable)("no session comes to have %s by an override or an update", async (_case, more, names) => {
  const before = await countRows(server);
  const override = { agent: { type: "agent_with_overrides", id: agentId, ...more } };
  await expectUnsupported(await send(server, session(override)()), names);
  await expectUnsupported(await send(server, { path: `/v1/sessions/${sessionId}`, json: { agent: more } }), names);
  expect(await countRows(server)).toEqual(before);
});

const empty: readonly (readonly [string, () => BadRequest])[] = [
  ["an agent's lists", agent({ skills: [], mcp_servers: [], tools: [] })],
  ["an agent's nulls", agent({ skills: null, mcp_servers: null, multiagent: null, system: null, description: null })],
  ["an agent's metadata", agent({ metadata: {} })],
  ["a toolset's config", toolset({ default_config: {}, configs: [] })],
  ["a web tool that is turned off", toolset({ configs: [{ name: "web_search", enabled: false }] })],
  ["a session's lists", session({ vault_ids: [], resources: [], initial_events: [] })],
  ["a session's nulls", session({ vault_ids: null, resources: null, budget: null, title: null })],
  ["a session's metadata", session({ metadata: {} })],
];
test.each(empty)("empty and null are accepted: %s", async (_case, request) => {
  const response = await send(server, request());
  expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('"id"')]);
});

test.each([
  ["?beta=true", {}],
  ["?colour=red", {}],
  ["", { "anthropic-version": "2023-06-01", "anthropic-beta": "managed-agents-2026-04-01" }],
  ["", { "anthropic-version": "2099-01-01" }],
  ["", {}],
])("unknown query parameters and any version header are ignored, case %#", async (query, headers) => {
  const response = await server.request(`/v1/agents${query}`, { json: { name: "A", model: "m" }, headers });
  expect(response.status).toBe(200);
});

test("web tools are off unless they are asked for, so that a plain toolset is accepted", async () => {
  const response = await send(server, toolset({})());
  expect(response.status).toBe(200);
});
