import { afterAll, beforeAll, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, apiOf, type Body, expectRefused, ids } from "./api.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
});
afterAll(() => server.close());

const custom = (name: string) => ({ type: "custom", name, description: "A tool.", input_schema: { type: "object" } });
const mcp = { type: "url", name: "issues", url: "https://mcp.example/mcp" };
const mcpToolset = { type: "mcp_toolset", mcp_server_name: "issues" };

const create = (body: object = {}) =>
  api.write("/v1/agents", {
    name: "Original",
    model: { id: "m", effort: "low" },
    system: "Old system",
    description: "Old description",
    metadata: { a: "1", b: "2" },
    tools: [custom("one"), custom("two")],
    ...body,
  });
const update = (agent: Body, body: object) => api.write(`/v1/agents/${agent.id}`, body);
const refused = (agent: Body, body: object, status: number, names?: string | RegExp) =>
  expectRefused(server, () => api.post(`/v1/agents/${agent.id}`, body), status, names);
const versions = async (agent: Body) => ids((await api.read(`/v1/agents/${agent.id}/versions`)).data).length;

verifies("agents:update:new-version", async () => {
  const agent = await create();
  const updated = await update(agent, { name: "Renamed" });
  expect(updated).toEqual({ ...agent, name: "Renamed", version: 2, updated_at: updated.updated_at });
  expect(updated.updated_at > agent.updated_at).toBe(true);
});

verifies("agents:update:version-match", async () => {
  const agent = await create();
  expect((await update(agent, { version: 1, name: "B" })).version).toBe(2);
  expect((await update(agent, { version: 2, name: "C" })).version).toBe(3);
});

for (const [title, body] of [
  ["an older version", { version: 1, name: "C" }],
  ["a version to come", { version: 3, name: "C" }],
  ["although nothing would change", { version: 1, name: "B" }],
  ["although nothing is said", { version: 1 }],
] as const) {
  verifies("agents:update:version-mismatch", title, async () => {
    const agent = await create();
    await update(agent, { name: "B" });
    await refused(agent, body, 409, "version");
    expect(await api.read(`/v1/agents/${agent.id}`)).toMatchObject({ name: "B", version: 2 });
  });
}
verifies("agents:update:version-mismatch", "a version that is none is a 400", async () => {
  const agent = await create();
  for (const version of [0, -1, 1.5, "1"]) await refused(agent, { version, name: "B" }, 400, "version");
});

verifies("agents:update:version-omitted", async () => {
  const agent = await create();
  await update(agent, { name: "B" });
  expect(await update(agent, { name: "C" })).toMatchObject({ name: "C", version: 3 });
});

verifies("agents:update:version-race", async () => {
  const agent = await create();
  const answers = await Promise.all(
    ["B", "C", "D", "E"].map((name) => api.post(`/v1/agents/${agent.id}`, { version: 1, name })),
  );
  expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409, 409, 409]);
  expect((await api.read(`/v1/agents/${agent.id}`)).version).toBe(2);
});
verifies("agents:update:version-race", "without a lock each gets a version of its own", async () => {
  const agent = await create();
  const answers = await Promise.all(["B", "C", "D", "E"].map((name) => update(agent, { name })));
  expect(answers.map(({ version }) => version).toSorted()).toEqual([2, 3, 4, 5]);
  expect(await versions(agent)).toBe(5);
});

verifies("agents:update:version-race", "concurrent patches of metadata lose nothing", async () => {
  const agent = await create({ metadata: {} });
  const keys = Array.from({ length: 8 }, (_, n) => `k${n}`);
  await Promise.all(keys.map((key) => update(agent, { metadata: { [key]: "v" } })));
  const { metadata, version } = await api.read(`/v1/agents/${agent.id}`);
  expect([Object.keys(metadata as object).toSorted(), version]).toEqual([keys, 9]);
});

verifies("agents:update:no-op", async () => {
  const agent = await create();
  const same = [
    {},
    { version: 1 },
    { name: "Original", system: "Old system" },
    { model: "m" },
    { model: { id: "m", effort: { type: "low" } } },
    { metadata: {} },
    { metadata: { a: "1" } },
    { metadata: { gone: null } },
    { tools: [custom("one"), custom("two")] },
    { mcp_servers: [] },
    { skills: [], multiagent: null },
  ];
  for (const body of same) expect(await update(agent, body)).toEqual(agent);
  expect(await versions(agent)).toBe(1);
});

verifies("agents:update:metadata", async () => {
  const agent = await create();
  const merged = await update(agent, { metadata: { b: null, c: "3", a: "9" } });
  expect(merged["metadata"]).toEqual({ a: "9", c: "3" });
});
verifies("agents:update:metadata", "limits of the result", async () => {
  const agent = await create({ metadata: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k${i}`, "v"])) });
  await refused(agent, { metadata: { k16: "v" } }, 400, "16");
  expect((await update(agent, { metadata: { k0: null, k16: "v" } })).version).toBe(2);
  await refused(agent, { metadata: { k1: "v".repeat(513) } }, 400, "512");
  await refused(agent, { metadata: { k1: 1 } }, 400, "metadata");
});

verifies("agents:update:arrays", async () => {
  const agent = await create();
  expect((await update(agent, { tools: [custom("three")] })).tools).toEqual([custom("three")]);
  expect((await update(agent, { tools: [] })).tools).toEqual([]);
  expect((await update(agent, { tools: [mcpToolset], mcp_servers: [mcp] }))["mcp_servers"]).toEqual([mcp]);
  expect(await update(agent, { tools: null, mcp_servers: null })).toMatchObject({ tools: [], mcp_servers: [] });
});

verifies("agents:update:clear", "null", async () => {
  const agent = await create();
  const cleared = await update(agent, { system: null, description: null, multiagent: null });
  expect(cleared).toMatchObject({ system: null, description: null, multiagent: null, version: 2 });
});
verifies("agents:update:clear", "an empty string (SDK docs)", async () => {
  const agent = await create();
  expect(await update(agent, { system: "", description: "" })).toMatchObject({ system: null, description: null });
});

for (const body of [{ name: null }, { name: "" }, { model: null }, { model: "" }, { model: { id: "" } }]) {
  verifies("agents:update:not-cleared", JSON.stringify(body), async () => {
    await refused(await create(), body, 400, Object.keys(body)[0]);
  });
}

verifies("agents:update:effort-kept", async () => {
  const agent = await create();
  expect((await update(agent, { model: { id: "m" }, name: "B" }))["model"]).toMatchObject({ effort: { type: "low" } });
  expect((await update(agent, { model: "m", name: "C" }))["model"]).toMatchObject({ effort: { type: "low" } });
});
verifies("agents:update:effort-reset", async () => {
  expect((await update(await create(), { model: "other" }))["model"]).toMatchObject({
    id: "other",
    effort: { type: "high" },
  });
});

verifies("agents:update:cross-check", async () => {
  const agent = await create({ tools: [mcpToolset], mcp_servers: [mcp] });
  await refused(agent, { tools: [] }, 400, "issues");
  await refused(agent, { mcp_servers: [] }, 400, "issues");
  await refused(agent, { mcp_servers: [{ ...mcp, name: "other" }] }, 400);
  const plain = await create();
  await refused(plain, { tools: [custom("one"), mcpToolset] }, 400, "issues");
  await refused(plain, { mcp_servers: [mcp] }, 400, "issues");
});

verifies("agents:update:archived", async () => {
  const agent = await create();
  const archived = await api.write(`/v1/agents/${agent.id}/archive`);
  for (const body of [{ name: "B" }, { metadata: { a: null } }, { version: 1, name: "B" }]) {
    const answer = await api.post(`/v1/agents/${agent.id}`, body);
    expect([400, 409]).toContain(answer.status);
    expect(answer.body.error.message).toMatch(/archived/);
  }
  expect(await api.read(`/v1/agents/${agent.id}`)).toEqual(archived);
});
