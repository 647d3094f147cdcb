import { afterAll, beforeAll, describe, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, apiOf, type Body, expectRefused, TIME } from "./api.ts";
import { customTool, isIdle, list, message, newSession, ofType, types, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
let agent: Body;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
  agent = await api.write("/v1/agents", { name: "A", model: { id: "m", effort: "low" } });
});
afterAll(() => server.close());

const create = (body: object = {}) =>
  api.write("/v1/sessions", { agent: agent.id, environment_id: server.environmentId, ...body });
const refused = (body: object, status: number, names?: string | RegExp) =>
  expectRefused(
    server,
    () => api.post("/v1/sessions", { agent: agent.id, environment_id: server.environmentId, ...body }),
    status,
    names,
  );

const NOTHING_USED = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  active_seconds: 0,
  server_tool_use: { web_search_requests: 0, web_fetch_requests: 0 },
};

describe("create", () => {
  verifies("sessions:create:defaults", async () => {
    const session = await create();
    expect(session).toMatchObject({
      id: expect.stringMatching(/^sesn_/),
      type: "session",
      status: "idle",
      title: null,
      environment_id: server.environmentId,
      metadata: {},
      resources: [],
      vault_ids: [],
      budget: null,
      usage: NOTHING_USED,
      stats: { active_seconds: 0, duration_seconds: expect.any(Number) },
      outcome_evaluations: [],
      created_at: expect.stringMatching(TIME),
      archived_at: null,
    });
    expect(session["deployment_id"] ?? null).toBeNull();
    expect(await api.read(`/v1/sessions/${session.id}`)).toMatchObject({ id: session.id, agent: session.agent });
    expect(await list(api, session)).toEqual([]);
  });

  verifies("sessions:create:snapshot", async () => {
    const full = await api.write("/v1/agents", {
      name: "Full",
      description: "D",
      system: "S",
      model: { id: "m", effort: "max" },
      tools: [customTool("lookup"), { type: "agent_toolset_20260401" }],
      metadata: { not: "in it" },
    });
    const { agent: snapshot } = await create({ agent: full.id });
    const { metadata, created_at, updated_at, archived_at, execution_identity: _, ...expected } = full;
    const { execution_identity, ...resolved } = snapshot;
    expect(resolved).toEqual(expected);
  });

  verifies("agents:execution-identity", "in the snapshot", async () => {
    expect((await create()).agent["execution_identity"]).toEqual({ type: "service_account" });
  });

  verifies("sessions:create:pinned", async () => {
    const own = await api.write("/v1/agents", { name: "Before", model: "m", system: "Old" });
    const session = await create({ agent: own.id });
    await api.write(`/v1/agents/${own.id}`, { name: "After", system: "New", model: "other" });
    expect((await api.read(`/v1/sessions/${session.id}`)).agent).toEqual(session.agent);
    expect((await create({ agent: own.id })).agent).toMatchObject({ name: "After", version: 2 });
  });

  verifies("sessions:create:forms", async () => {
    const forms = [agent.id, { type: "agent", id: agent.id }, { type: "agent_with_overrides", id: agent.id }];
    const [bare, object, overridden] = await Promise.all(forms.map((form) => create({ agent: form })));
    expect(object?.agent).toEqual(bare?.agent);
    expect(overridden?.agent).toEqual(bare?.agent);
    for (const [form, names] of [
      [{ id: agent.id }, "agent"],
      [{ type: "other", id: agent.id }, "agent"],
      [{ type: "agent", id: agent.id, model: "m" }, "model"],
      [7, "agent"],
    ] as const) {
      await refused({ agent: form }, 400, names);
    }
  });

  verifies("sessions:create:version", async () => {
    const own = await api.write("/v1/agents", { name: "V1", model: "m" });
    await api.write(`/v1/agents/${own.id}`, { name: "V2" });
    for (const type of ["agent", "agent_with_overrides"]) {
      expect((await create({ agent: { type, id: own.id, version: 1 } })).agent).toMatchObject({
        name: "V1",
        version: 1,
      });
      await refused({ agent: { type, id: own.id, version: 3 } }, 404, "version");
      await refused({ agent: { type, id: own.id, version: 0 } }, 400, "version");
    }
  });

  verifies("sessions:create:required", async () => {
    await refused({ agent: undefined }, 400, "agent");
    await refused({ agent: null }, 400, "agent");
    await refused({ environment_id: undefined }, 400, "environment_id");
    await refused({ environment_id: "" }, 400, "environment_id");
  });
  verifies("sessions:create:unknown", async () => {
    await refused({ agent: "agent_nothing" }, 404, "agent");
    await refused({ agent: { type: "agent_with_overrides", id: "agent_nothing" } }, 404, "agent");
    const answer = await refused({ environment_id: "env_nothing" }, 404, "environment");
    expect(answer.body.error.details?.error_code).toBe("environment_not_found");
  });
  verifies("sessions:create:archived-agent", async () => {
    const own = await api.write("/v1/agents", { name: "Old", model: "m" });
    await api.write(`/v1/agents/${own.id}/archive`);
    for (const form of [
      own.id,
      { type: "agent", id: own.id, version: 1 },
      { type: "agent_with_overrides", id: own.id },
    ]) {
      const answer = await api.post("/v1/sessions", { agent: form, environment_id: server.environmentId });
      expect([400, 409]).toContain(answer.status);
      expect(answer.body.error.message).toMatch(/archived/);
    }
  });

  verifies("sessions:create:metadata", async () => {
    const metadata = { ["k".repeat(64)]: "v".repeat(512) };
    expect(await create({ title: "Mine", metadata })).toMatchObject({ title: "Mine", metadata });
    await refused({ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])) }, 400, "16");
    await refused({ metadata: { k: "v".repeat(513) } }, 400, "512");
    await refused({ metadata: { ["k".repeat(65)]: "v" } }, 400, "64");
    await refused({ title: 7 }, 400, "title");
  });
  verifies("sessions:create:empty-features", async () => {
    const empty = { title: null, metadata: {}, vault_ids: [], resources: [], budget: null, initial_events: [] };
    expect(await create(empty)).toMatchObject({ status: "idle", vault_ids: [], resources: [], budget: null });
  });
  for (const [feature, body] of [
    ["vault", { vault_ids: ["vlt_1"] }],
    ["resources", { resources: [{ type: "file", file_id: "file_1" }] }],
    ["resources", { resources: [{ type: "memory_store", memory_store_id: "memstore_1", access: "read_write" }] }],
    ["resources", { resources: [{ type: "github_repository", url: "https://github.com/a/b" }] }],
    ["budget", { budget: { type: "limit", max_list_cost: { amount: "100", currency: "USD" } } }],
    ["skills", { agent: { type: "agent_with_overrides", id: "x", skills: [{ type: "custom", skill_id: "skill_1" }] } }],
  ] as const) {
    verifies("sessions:create:unbuilt-features", JSON.stringify(body).slice(0, 70), async () => {
      await refused(body, 422, feature);
    });
  }
});

verifies("sessions:create:mcp", async () => {
  const own = await api.write("/v1/agents", {
    name: "M",
    model: "m",
    mcp_servers: [{ type: "url", name: "issues", url: "https://mcp.example/mcp" }],
    tools: [{ type: "mcp_toolset", mcp_server_name: "issues" }],
  });
  await refused({ agent: own.id }, 422, "MCP");
});

describe("initial events", () => {
  verifies("sessions:initial:running", async () => {
    const session = await create({ initial_events: [message("first"), message("second")] });
    expect(session.status).toBe("running");
    const events = await until(api, session, isIdle("end_turn"));
    expect(ofType(events, "user.message").map((event) => event["content"])).toEqual([
      [{ type: "text", text: "first" }],
      [{ type: "text", text: "second" }],
    ]);
    expect(types(events)).toContain("agent.message");
  });

  verifies("sessions:initial:types", async () => {
    for (const event of [
      { type: "user.interrupt" },
      { type: "user.tool_result", tool_use_id: "sevt_1" },
      { type: "user.custom_tool_result", custom_tool_use_id: "sevt_1" },
      { type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "allow" },
      { type: "system.message", content: [{ type: "text", text: "x" }] },
      { type: "agent.message", content: [] },
    ]) {
      const answer = await api.post("/v1/sessions", {
        agent: agent.id,
        environment_id: server.environmentId,
        initial_events: [message("first"), event],
      });
      // Whether the feature or the place is told first is the server's choice.
      const allowed = event.type === "system.message" ? [400, 422] : [400];
      expect({ type: event.type, status: answer.status }).toMatchObject({ status: expect.toBeOneOf(allowed) });
      expect(answer.body.error.message).toMatch(/initial_events/);
    }
  });
  verifies("sessions:initial:types", "outcomes", async () => {
    const outcome = { type: "user.define_outcome", description: "d", rubric: { type: "text", content: "r" } };
    await refused({ initial_events: [outcome] }, 422, "outcome");
  });

  verifies("sessions:initial:limit", async () => {
    const messages = (n: number) => Array.from({ length: n }, (_, i) => message(`m${i}`));
    await refused({ initial_events: messages(51) }, 400, "50");
    const session = await create({ initial_events: messages(50) });
    const events = await until(api, session, isIdle("end_turn"));
    expect(ofType(events, "user.message")).toHaveLength(50);
    expect((await create({ initial_events: null })).status).toBe("idle");
  });

  verifies("sessions:initial:all-or-nothing", async () => {
    await refused({ initial_events: [message("good"), { type: "user.message", content: [] }] }, 400, "initial_events");
    await refused({ initial_events: [message("good")], environment_id: "env_nothing" }, 404);
    await refused({ initial_events: [message("good")], vault_ids: ["vlt_1"] }, 422);
  });
});

verifies("sessions:usage", async () => {
  const session = await newSession(api, server.environmentId, { session: { initial_events: [message("count me")] } });
  await until(api, session, isIdle("end_turn"));
  const read = await api.read(`/v1/sessions/${session.id}`);
  const events = await list(api, session);
  const [span] = ofType(events, "span.model_request_end");
  expect(span?.["model_usage"]).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) });
  const usage = read["usage"] as { input_tokens: number; output_tokens: number; active_seconds: number };
  const spent = span?.["model_usage"] as { input_tokens: number; output_tokens: number };
  expect([usage.input_tokens, usage.output_tokens]).toEqual([spent.input_tokens, spent.output_tokens]);
  expect(usage.input_tokens).toBeGreaterThan(0);
  const stats = read["stats"] as { active_seconds: number; duration_seconds: number };
  expect(stats.active_seconds).toBeGreaterThan(0);
  expect(stats.duration_seconds).toBeGreaterThanOrEqual(stats.active_seconds);
  expect(ofType(events, "session.usage")[0]?.["usage"]).toMatchObject({ input_tokens: spent.input_tokens });
});
