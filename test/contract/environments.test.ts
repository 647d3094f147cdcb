import { afterAll, beforeAll, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Answer, type Api, allPages, apiOf, type Body, expectRefused, ids, TIME } from "./api.ts";
import { runTurn } from "./driver.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
});
afterAll(() => server.close());

const create = (body: object = {}) => api.write("/v1/environments", { name: "E", ...body });
const refused = (path: string, body: object, status: number, names?: string | RegExp): Promise<Answer> =>
  expectRefused(server, () => api.post(path, body), status, names);
const code = ({ body }: Answer) => body.error.details?.error_code;
const sessionIn = async (environment: Body) => {
  const agent = await api.write("/v1/agents", { name: "A", model: "m" });
  return api.write("/v1/sessions", { agent: agent.id, environment_id: environment.id });
};
const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, "v"]));

verifies("environments:create", async () => {
  const environment = await create({ name: "Mine", description: "Where it runs", metadata: { a: "1" } });
  expect(environment).toMatchObject({
    id: expect.stringMatching(/^env_/),
    type: "environment",
    name: "Mine",
    description: "Where it runs",
    config: { type: "self_hosted" },
    metadata: { a: "1" },
    created_at: expect.stringMatching(TIME),
    archived_at: null,
  });
  expect(environment.updated_at).toBe(environment.created_at);
});
for (const body of [{}, { config: null }, { config: { type: "self_hosted" }, description: null, scope: null }]) {
  verifies("environments:create", JSON.stringify(body), async () => {
    const expected = { config: { type: "self_hosted" }, description: null, metadata: {} };
    expect(await create(body)).toMatchObject(expected);
  });
}

const limited = { type: "limited", allowed_hosts: ["a.example"], allow_mcp_servers: true };
for (const config of [
  {},
  { networking: { type: "unrestricted" } },
  { networking: limited, packages: { pip: ["x"] } },
]) {
  verifies("environments:create:cloud", JSON.stringify(config), async () => {
    await refused("/v1/environments", { name: "E", config: { type: "cloud", ...config } }, 422, /cloud.*self_hosted/s);
  });
}

for (const [body, names] of [
  [{}, "name"],
  [{ name: "" }, "name"],
  [{ name: null }, "name"],
  [{ name: "E", config: {} }, "config"],
  [{ name: "E", config: { type: "moon" } }, "config"],
  [{ name: "E", config: { type: "self_hosted", networking: {} } }, "networking"],
  [{ name: "E", config: "self_hosted" }, "config"],
  [{ name: "E", scope: "galaxy" }, "scope"],
  [{ name: "E", metadata: pairs(17) }, "16"],
  [{ name: "E", metadata: { k: 1 } }, "metadata"],
  [{ name: "E", region: "eu" }, "region"],
] as const) {
  verifies("environments:create:invalid", JSON.stringify(body).slice(0, 60), async () => {
    await refused("/v1/environments", body, 400, names);
  });
}

for (const scope of ["organization", "account"]) {
  verifies("environments:create:scope", scope, async () => {
    expect(await create({ scope })).toMatchObject({ scope });
  });
}

verifies("environments:get", async () => {
  const environment = await create();
  expect(await api.read(`/v1/environments/${environment.id}`)).toEqual(environment);
});

for (const [title, request] of [
  ["read", () => api.get("/v1/environments/env_nothing")],
  ["update", () => api.post("/v1/environments/env_nothing", { name: "B" })],
  ["archive", () => api.post("/v1/environments/env_nothing/archive")],
  ["delete", () => api.delete("/v1/environments/env_nothing")],
] as const) {
  verifies("environments:not-found", title, async () => {
    expect(code(await expectRefused(server, request, 404))).toBe("environment_not_found");
  });
}

verifies("environments:update", async () => {
  const environment = await create({ description: "Old", metadata: { a: "1" } });
  const renamed = await api.write(`/v1/environments/${environment.id}`, { name: "New" });
  expect(renamed).toEqual({ ...environment, name: "New", updated_at: renamed.updated_at });
  expect(renamed.updated_at > environment.updated_at).toBe(true);
  expect(await api.write(`/v1/environments/${environment.id}`, { description: null })).toMatchObject({
    name: "New",
    description: null,
  });
  await refused(`/v1/environments/${environment.id}`, { name: "" }, 400, "name");
});
verifies("environments:update", "the same config and a null config change nothing", async () => {
  const environment = await create();
  for (const config of [{ type: "self_hosted" }, null]) {
    expect(await api.write(`/v1/environments/${environment.id}`, { config })).toMatchObject({
      config: { type: "self_hosted" },
    });
  }
});

verifies("environments:update:metadata", async () => {
  const environment = await create({ metadata: { a: "1", b: "2", c: "3" } });
  const patch = { a: null, b: "", d: "4" };
  const updated = await api.write(`/v1/environments/${environment.id}`, { metadata: patch });
  expect(updated["metadata"]).toEqual({ c: "3", d: "4" });
});

verifies("environments:update:metadata", "concurrent patches lose nothing", async () => {
  const environment = await create();
  const keys = Array.from({ length: 8 }, (_, n) => `k${n}`);
  const patch = (key: string) => api.write(`/v1/environments/${environment.id}`, { metadata: { [key]: "v" } });
  await Promise.all(keys.map(patch));
  const { metadata } = await api.read(`/v1/environments/${environment.id}`);
  expect(Object.keys(metadata as object).toSorted()).toEqual(keys);
});

for (const [title, metadata] of [
  ["17 pairs in all", { k16: "v" }],
  ["a long value", { k0: "v".repeat(513) }],
  ["a long key", { ["k".repeat(65)]: "v" }],
] as const) {
  verifies("environments:update:invalid-metadata", title, async () => {
    const environment = await create({ metadata: pairs(16) });
    const answer = await refused(`/v1/environments/${environment.id}`, { metadata }, 400, /metadata|16/);
    expect(code(answer)).toBe("invalid_metadata");
  });
}

verifies("environments:update:config-type", async () => {
  const environment = await create();
  for (const config of [{ type: "cloud" }, { type: "cloud", networking: { type: "unrestricted" } }]) {
    const answer = await refused(`/v1/environments/${environment.id}`, { config }, 400, "config");
    expect(code(answer)).toBe("invalid_config_type_change");
  }
});

verifies("environments:update:archived", async () => {
  const environment = await create();
  await api.write(`/v1/environments/${environment.id}/archive`);
  const answer = await refused(`/v1/environments/${environment.id}`, { name: "B" }, 400, "archived");
  expect(code(answer)).toBe("environment_archived");
});

verifies("environments:list", async () => {
  const made: string[] = [];
  for (let n = 0; n < 5; n += 1) made.unshift((await create({ name: `L${n}` })).id);
  const archived = made[2] ?? "";
  await api.write(`/v1/environments/${archived}/archive`);
  const whole = await allPages(api, "/v1/environments?limit=1000&include_archived=true");
  expect(ids(whole.items).slice(0, 5)).toEqual(made);
  const paged = await allPages(api, "/v1/environments?limit=2&include_archived=true");
  expect(paged.items).toEqual(whole.items);
  const active = ids((await allPages(api, "/v1/environments?limit=2")).items);
  expect(active.slice(0, 4)).toEqual(made.filter((id) => id !== archived));
  expect(active).not.toContain(archived);
});

verifies("environments:archive", async () => {
  const environment = await create();
  const session = await sessionIn(environment);
  const archived = await api.write(`/v1/environments/${environment.id}/archive`);
  expect(archived.archived_at).toMatch(TIME);
  expect((await api.write(`/v1/environments/${environment.id}/archive`)).archived_at).toBe(archived.archived_at);
  await runTurn(api, session, "go on");
});

verifies("environments:archive:new-session", async () => {
  const environment = await create();
  await api.write(`/v1/environments/${environment.id}/archive`);
  const agent = await api.write("/v1/agents", { name: "A", model: "m" });
  const body = { agent: agent.id, environment_id: environment.id };
  expect(code(await refused("/v1/sessions", body, 400, "archived"))).toBe("environment_archived");
});

verifies("environments:delete", async () => {
  const environment = await create();
  expect(await api.remove(`/v1/environments/${environment.id}`)).toEqual({
    id: environment.id,
    type: "environment_deleted",
  });
  await expectRefused(server, () => api.get(`/v1/environments/${environment.id}`), 404);
  await expectRefused(server, () => api.delete(`/v1/environments/${environment.id}`), 404);
  expect(ids((await allPages(api, "/v1/environments?include_archived=true")).items)).not.toContain(environment.id);
});

verifies("environments:delete:referenced", async () => {
  const environment = await create();
  const session = await sessionIn(environment);
  await expectRefused(server, () => api.delete(`/v1/environments/${environment.id}`), 409, /session/);
  await api.remove(`/v1/sessions/${session.id}`);
  expect((await api.remove(`/v1/environments/${environment.id}`)).type).toBe("environment_deleted");
});
verifies("environments:delete:referenced", "a session made at the same moment is never left without one", async () => {
  const agent = await api.write("/v1/agents", { name: "A", model: "m" });
  for (let round = 0; round < 5; round += 1) {
    const environment = await create();
    const [session, deleted] = await Promise.all([
      api.post("/v1/sessions", { agent: agent.id, environment_id: environment.id }),
      api.delete(`/v1/environments/${environment.id}`),
    ]);
    expect([
      [200, 409],
      [404, 200],
    ]).toContainEqual([session.status, deleted.status]);
  }
});
