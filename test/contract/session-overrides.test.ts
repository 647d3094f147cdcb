import { afterAll, beforeAll, describe, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, apiOf, type Body, expectRefused } from "./api.ts";
import { customTool } from "./driver.ts";
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

describe("overrides", () => {
  const mcp = { type: "url", name: "issues", url: "https://mcp.example/mcp" };
  // Disabled, because MCP itself is not built; the cross-checks hold all the same.
  const mcpToolset = { type: "mcp_toolset", mcp_server_name: "issues", default_config: { enabled: false } };
  const override = (base: Body, fields: object) =>
    create({ agent: { type: "agent_with_overrides", id: base.id, ...fields } });
  let base: Body;
  beforeAll(async () => {
    base = await api.write("/v1/agents", {
      name: "Base",
      model: { id: "m", effort: "max" },
      system: "Base system",
      tools: [customTool("one"), mcpToolset],
      mcp_servers: [mcp],
    });
  });

  verifies("sessions:overrides:inherit", async () => {
    const plain = await create({ agent: base.id });
    expect((await override(base, {})).agent).toEqual(plain.agent);
    expect((await override(base, { system: "Own" })).agent).toEqual({ ...plain.agent, system: "Own" });
  });
  verifies("sessions:overrides:replace", async () => {
    const { agent: own } = await override(base, {
      system: "Own",
      model: "other",
      tools: [customTool("two")],
      mcp_servers: [],
    });
    expect(own).toMatchObject({ system: "Own", tools: [customTool("two")], mcp_servers: [], model: { id: "other" } });
    expect(own).toMatchObject({ id: base.id, version: 1, name: "Base" });
  });
  verifies("sessions:overrides:clear", async () => {
    const cleared = { system: null, tools: [], mcp_servers: [], skills: [] };
    expect((await override(base, cleared)).agent).toMatchObject({
      system: null,
      tools: [],
      mcp_servers: [],
      skills: [],
    });
    expect((await override(base, { tools: null, mcp_servers: null })).agent).toMatchObject({
      tools: [],
      mcp_servers: [],
    });
    await refused({ agent: { type: "agent_with_overrides", id: base.id, model: null } }, 400, "model");
  });
  verifies("sessions:overrides:mcp", async () => {
    for (const fields of [{ mcp_servers: [] }, { mcp_servers: null }, { tools: [] }]) {
      await refused({ agent: { type: "agent_with_overrides", id: base.id, ...fields } }, 400, "issues");
    }
  });
  verifies("sessions:overrides:effort", async () => {
    expect((await override(base, { model: "other" })).agent["model"]).toEqual({
      id: "other",
      effort: { type: "high" },
    });
    expect((await override(base, { model: "m" })).agent["model"]).toEqual({ id: "m", effort: { type: "high" } });
    expect((await override(base, { model: { id: "m", effort: "low" } })).agent["model"]).toMatchObject({
      effort: { type: "low" },
    });
  });
  verifies("sessions:overrides:agent-untouched", async () => {
    const before = await api.read(`/v1/agents/${base.id}`);
    await override(base, { system: "Own", model: "other" });
    expect(await api.read(`/v1/agents/${base.id}`)).toEqual(before);
  });
});
