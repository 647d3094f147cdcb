import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { calls, held, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectError, expectRefused, TIME } from "./api.ts";
import {
  customTool,
  isIdle,
  list,
  message,
  newSession,
  ofType,
  post,
  runTurn,
  send,
  status,
  types,
  until,
} from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const create = (more: Parameters<typeof newSession>[2] = {}) => newSession(api, scripted.server.environmentId, more);
const update = (session: Body, body: object) => api.write(`/v1/sessions/${session.id}`, body);
const refused = (session: Body, body: object, code: number, names?: string | RegExp) =>
  expectRefused(scripted.server, () => api.post(`/v1/sessions/${session.id}`, body), code, names);
const updates = async (session: Body) =>
  ofType(await list(api, session), "session.updated").map(({ id, type, processed_at, ...changed }) => changed);

/** A session whose model has begun an answer and waits; `finish` lets it end. */
async function running() {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "At last."));
  const session = await create();
  await send(api, session, message("work"));
  await until(api, session, ({ type }) => type === "span.model_request_start");
  return {
    session,
    finish: async () => {
      gate.resolve();
      await until(api, session, isIdle("end_turn"));
      await scripted.script();
    },
  };
}

/** A session that waits for its application. */
async function waiting() {
  await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "x" })), says("Done."));
  const session = await create({ agent: { tools: [customTool("lookup")] } });
  await send(api, session, message("look"));
  await until(api, session, isIdle("requires_action"));
  return session;
}

describe("update", () => {
  verifies("sessions:update:title", async () => {
    const session = await create({ session: { title: "Old", metadata: { a: "1" } } });
    const updated = await update(session, { title: "New" });
    expect(updated).toMatchObject({ title: "New", metadata: { a: "1" }, status: "idle" });
    expect(updated.updated_at > session.updated_at).toBe(true);
    expect(await update(session, { title: null })).toMatchObject({ title: null });
    expect(await updates(session)).toEqual([{ title: "New" }, { title: null }]);
  });

  verifies("sessions:update:metadata", async () => {
    const session = await create({ session: { metadata: { a: "1", b: "2" } } });
    expect((await update(session, { metadata: { a: null, c: "3" } }))["metadata"]).toEqual({ b: "2", c: "3" });
    expect((await update(session, { metadata: { b: null, c: null } }))["metadata"]).toEqual({});
    expect(await updates(session)).toEqual([{ metadata: { b: "2", c: "3" } }, {}]);
    const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"]));
    await refused(session, { metadata: many }, 400, "16");
  });

  verifies("sessions:update:metadata", "concurrent patches lose nothing", async () => {
    const session = await create();
    const keys = Array.from({ length: 10 }, (_, n) => `k${n}`);
    await Promise.all(keys.map((key) => update(session, { metadata: { [key]: "v" } })));
    expect(Object.keys((await api.read(`/v1/sessions/${session.id}`))["metadata"] as object).toSorted()).toEqual(keys);
    expect(await updates(session)).toHaveLength(10);
  });

  verifies("sessions:update:no-op", async () => {
    const session = await create({ session: { title: "T", metadata: { a: "1" } } });
    for (const body of [{}, { title: "T" }, { metadata: { a: "1" } }, { metadata: { z: null } }, { metadata: null }]) {
      expect(await update(session, body)).toMatchObject({ title: "T", metadata: { a: "1" } });
    }
    expect(await list(api, session)).toEqual([]);
  });

  verifies("sessions:update:agent", async () => {
    const provider = await scripted.script();
    const session = await create({ agent: { tools: [customTool("one")], system: "S" } });
    await runTurn(api, session, "hello");
    const updated = await update(session, { agent: { tools: [customTool("two")] } });
    expect(updated.agent).toEqual({ ...session.agent, tools: [customTool("two")] });
    expect(await updates(session)).toEqual([{ agent: updated.agent }]);
    await runTurn(api, session, "hello again");
    const offered = [0, 1].map((n) => JSON.parse(provider.requests[n]?.body ?? "").tools.map(({ name }: Body) => name));
    expect(offered).toEqual([["one"], ["two"]]);
    expect((await api.read(`/v1/agents/${session.agent.id}`)).version).toBe(1);
  });
  verifies("sessions:update:agent", "mcp_servers with their toolset, and cleared", async () => {
    const session = await create({ agent: { tools: [customTool("one")] } });
    const mcp = { type: "url", name: "issues", url: "https://mcp.example/mcp" };
    const toolset = { type: "mcp_toolset", mcp_server_name: "issues", default_config: { enabled: false } };
    const tools = [customTool("one"), toolset];
    expect((await update(session, { agent: { tools, mcp_servers: [mcp] } })).agent["mcp_servers"]).toEqual([mcp]);
    expect((await update(session, { agent: { tools: [], mcp_servers: [] } })).agent).toMatchObject({
      tools: [],
      mcp_servers: [],
    });
  });

  verifies("sessions:update:agent-running", async () => {
    const { session, finish } = await running();
    const answer = await api.post(`/v1/sessions/${session.id}`, { agent: { tools: [] } });
    expect([400, 409]).toContain(answer.status);
    expect(answer.body.error.message).toMatch(/running|idle/);
    expect(await updates(session)).toEqual([]);
    expect(await update(session, { title: "may change" })).toMatchObject({ title: "may change" });
    await finish();
  });

  verifies("sessions:update:agent-closed", async () => {
    const session = await create({ agent: { tools: [customTool("one")] } });
    for (const field of ["model", "system", "name", "skills"]) {
      await refused(session, { agent: { [field]: field === "skills" ? [{}] : "x" } }, 400, field);
    }
    await refused(session, { agent: { tools: [{ type: "mcp_toolset", mcp_server_name: "issues" }] } }, 400, "issues");
    await refused(session, { agent: { tools: [customTool("bash")] } }, 400, "bash");
    await refused(session, { agent: "agent_other" }, 400, "agent");
    await refused(session, { environment_id: scripted.server.environmentId }, 400, "environment_id");
    await refused(session, { status: "terminated" }, 400, "status");
  });

  verifies("sessions:update:unbuilt", async () => {
    const session = await create();
    expect((await update(session, { vault_ids: [], budget: null })).id).toBe(session.id);
    await refused(session, { vault_ids: ["vlt_1"] }, 422, "vault");
    const budget = { type: "limit", max_list_cost: { amount: "100", currency: "USD" } };
    await refused(session, { budget }, 422, "budget");
  });
  verifies("sessions:update:unbuilt", "an unknown session", async () => {
    await expectRefused(scripted.server, () => api.post("/v1/sessions/sesn_nothing", { title: "T" }), 404);
  });
});

describe("archive", () => {
  verifies("sessions:archive", async () => {
    await scripted.script();
    const session = await create();
    const before = await runTurn(api, session, "remember this");
    const archived = await api.write(`/v1/sessions/${session.id}/archive`);
    expect(archived).toMatchObject({ status: "terminated", archived_at: expect.stringMatching(TIME) });
    const events = await list(api, session);
    expect(events.slice(0, before.length)).toEqual(before);
    expect(types(events.slice(before.length)).at(-1)).toBe("session.status_terminated");
    expect((await api.write(`/v1/sessions/${session.id}/archive`)).archived_at).toBe(archived.archived_at);
    expect(await list(api, session)).toEqual(events);
    const stats = (body: Body) => (body["stats"] as { duration_seconds: number }).duration_seconds;
    await sleep(50);
    expect(stats(await api.read(`/v1/sessions/${session.id}`))).toBe(stats(archived));
  });

  verifies("sessions:archive:read-only", async () => {
    const session = await create();
    await api.write(`/v1/sessions/${session.id}/archive`);
    const events = await list(api, session);
    const attempts = [
      await post(api, session, message("hello?")),
      await post(api, session, { type: "user.interrupt" }),
      await api.post(`/v1/sessions/${session.id}`, { title: "T" }),
      await api.post(`/v1/sessions/${session.id}`, { agent: { tools: [] } }),
    ];
    for (const answer of attempts) {
      expect([400, 409]).toContain(answer.status);
      expect(answer.body.error.message).toMatch(/archived|terminated/);
    }
    expect(await list(api, session)).toEqual(events);
  });

  verifies("sessions:archive:running", async () => {
    const { session, finish } = await running();
    const answer = await api.post(`/v1/sessions/${session.id}/archive`);
    expect([400, 409]).toContain(answer.status);
    expect(answer.body.error.message).toMatch(/running/);
    expect(await status(api, session)).toBe("running");
    await finish();
    expect((await api.write(`/v1/sessions/${session.id}/archive`)).status).toBe("terminated");
  });

  verifies("sessions:archive:waiting", async () => {
    const session = await waiting();
    expect((await api.write(`/v1/sessions/${session.id}/archive`)).status).toBe("terminated");
  });
});

describe("delete", () => {
  verifies("sessions:delete", async () => {
    await scripted.script();
    const session = await create();
    await runTurn(api, session, "hello");
    const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
    expect(await api.remove(`/v1/sessions/${session.id}`)).toEqual({ id: session.id, type: "session_deleted" });
    const gone = [
      "",
      "/events",
      "/events/stream",
      "/threads",
      `/threads/${thread?.id}`,
      `/threads/${thread?.id}/stream`,
    ];
    for (const path of gone) expectError(await api.get(`/v1/sessions/${session.id}${path}`), 404);
    expectError(await post(api, session, message("hello?")), 404);
    expectError(await api.delete(`/v1/sessions/${session.id}`), 404);
    expect((await api.read("/v1/sessions?limit=1000&include_archived=true")).data.map(({ id }) => id)).not.toContain(
      session.id,
    );
  });
  verifies("sessions:delete", "of a session that waits for an action", async () => {
    const session = await waiting();
    expect((await api.remove(`/v1/sessions/${session.id}`)).type).toBe("session_deleted");
  });

  verifies("sessions:delete:running", async () => {
    const { session, finish } = await running();
    const answer = await api.delete(`/v1/sessions/${session.id}`);
    expect([400, 409]).toContain(answer.status);
    expect(answer.body.error.message).toMatch(/running/);
    await finish();
    expect(types(await list(api, session)).at(-1)).toBe("session.status_idle");
  });

  verifies("sessions:delete:archived", async () => {
    const session = await create();
    await api.write(`/v1/sessions/${session.id}/archive`);
    expect(await api.remove(`/v1/sessions/${session.id}`)).toEqual({ id: session.id, type: "session_deleted" });
  });
});
