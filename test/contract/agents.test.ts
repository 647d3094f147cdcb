import { afterAll, beforeAll, describe, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, allPages, apiOf, expectRefused, ids, TIME } from "./api.ts";
import { runTurn } from "./driver.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
});
afterAll(() => server.close());

const refuse = (body: object, status: number, names?: string | RegExp) =>
  expectRefused(server, () => api.post("/v1/agents", { name: "A", model: "m", ...body }), status, names);

describe("create", () => {
  verifies("agents:create:defaults", async () => {
    const agent = await api.write("/v1/agents", { name: "Minimal", model: "model-1" });
    expect(agent).toMatchObject({
      id: expect.stringMatching(/^agent_/),
      type: "agent",
      name: "Minimal",
      description: null,
      system: null,
      model: { id: "model-1", effort: { type: "high" } },
      tools: [],
      mcp_servers: [],
      skills: [],
      multiagent: null,
      metadata: {},
      version: 1,
      created_at: expect.stringMatching(TIME),
      archived_at: null,
    });
    expect(agent.updated_at).toBe(agent.created_at);
  });

  verifies("agents:create:full", async () => {
    const sent = {
      name: "Full",
      description: "All of it",
      system: "Be brief. \u{1F96D}",
      model: { id: "model-1", effort: { type: "low" } },
      metadata: { team: "fruit", empty: "" },
    };
    const agent = await api.write("/v1/agents", sent);
    expect(agent).toMatchObject(sent);
    expect(await api.read(`/v1/agents/${agent.id}`)).toEqual(agent);
  });

  for (const [title, body, names] of [
    ["no name", { model: "m" }, "name"],
    ["no model", { name: "A" }, "model"],
    ["an empty name", { name: "", model: "m" }, "name"],
    ["an empty model", { name: "A", model: "" }, "model"],
    ["a model without an id", { name: "A", model: { effort: "low" } }, "model"],
    ["a null name", { name: null, model: "m" }, "name"],
    ["a null model", { name: "A", model: null }, "model"],
  ] as const) {
    verifies("agents:create:required", title, async () => {
      await expectRefused(server, () => api.post("/v1/agents", body), 400, names);
    });
  }

  for (const effort of ["low", "medium", "high", "xhigh", "max"]) {
    verifies("agents:create:effort", effort, async () => {
      const bare = await api.write("/v1/agents", { name: "A", model: { id: "m", effort } });
      const object = await api.write("/v1/agents", { name: "A", model: { id: "m", effort: { type: effort } } });
      expect([bare["model"], object["model"]]).toMatchObject([
        { effort: { type: effort } },
        { effort: { type: effort } },
      ]);
    });
  }
  verifies("agents:create:effort", "no other", async () => {
    await refuse({ model: { id: "m", effort: "extreme" } }, 400, "effort");
    await refuse({ model: { id: "m", effort: { type: "low", level: 1 } } }, 400, "level");
  });

  const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, "v"]));
  verifies("agents:create:metadata", "at the limits", async () => {
    const metadata = { ...pairs(15), ["k".repeat(64)]: "v".repeat(512) };
    expect((await api.write("/v1/agents", { name: "A", model: "m", metadata }))["metadata"]).toEqual(metadata);
  });
  for (const [title, metadata, names] of [
    ["17 pairs", pairs(17), /16/],
    ["a key of 65", { ["k".repeat(65)]: "v" }, /64/],
    ["a value of 513", { k: "v".repeat(513) }, /512/],
    ["an empty key", { "": "v" }, /metadata/],
    ["a number", { k: 1 }, /metadata/],
    ["null", { k: null }, /metadata/],
    ["a list", ["v"], /metadata/],
  ] as const) {
    verifies("agents:create:metadata", title, async () => {
      await refuse({ metadata }, 400, names);
    });
  }

  verifies("agents:create:empty-features", async () => {
    const empty = { skills: [], multiagent: null, execution_identity: null, tools: [], mcp_servers: [], metadata: {} };
    const agent = await api.write("/v1/agents", {
      name: "A",
      model: { id: "m", speed: null, inference_geo: null },
      ...empty,
    });
    expect(agent).toMatchObject({ skills: [], multiagent: null });
  });
  for (const [feature, body] of [
    ["skills", { skills: [{ type: "anthropic", skill_id: "xlsx" }] }],
    ["multi-?agent", { multiagent: { type: "coordinator", agents: [{ type: "self" }] } }],
    ["multi-?agent", { multiagent: { type: "multiagent_20261001" } }],
    ["execution.identit", { execution_identity: { type: "aws_role", role_arn: "arn:aws:iam::1:role/x" } }],
    ["speed", { model: { id: "m", speed: "fast" } }],
    ["inference", { model: { id: "m", inference_geo: "eu" } }],
  ] as const) {
    verifies("agents:create:unbuilt-features", JSON.stringify(body), async () => {
      await refuse(body, 422, new RegExp(feature, "i"));
    });
  }
});

verifies("agents:execution-identity", "in the answer", async () => {
  const agent = await api.write("/v1/agents", { name: "A", model: "m" });
  expect(agent["execution_identity"]).toEqual({ type: "service_account" });
});
verifies("agents:execution-identity", "the default may be sent", async () => {
  const body = { name: "A", model: "m", execution_identity: { type: "service_account" } };
  expect((await api.post("/v1/agents", body)).status).toBe(200);
});

describe("read and list", () => {
  verifies("agents:get", async () => {
    const agent = await api.write("/v1/agents", { name: "A", model: "m" });
    await api.write(`/v1/agents/${agent.id}`, { name: "B" });
    expect(await api.read(`/v1/agents/${agent.id}`)).toMatchObject({ id: agent.id, name: "B", version: 2 });
  });

  verifies("agents:get:version", async () => {
    const agent = await api.write("/v1/agents", { name: "A", model: "m" });
    await api.write(`/v1/agents/${agent.id}`, { name: "B" });
    expect(await api.read(`/v1/agents/${agent.id}?version=1`)).toEqual(agent);
    const read = (version: string) => () => api.get(`/v1/agents/${agent.id}?version=${version}`);
    await expectRefused(server, read("0"), 400, "version");
    await expectRefused(server, read("two"), 400, "version");
    await expectRefused(server, read("3"), 404);
    expect([400, 404]).toContain((await read("99999999999999999999")()).status);
  });

  verifies("agents:list", async () => {
    const made: string[] = [];
    for (let n = 0; n < 7; n += 1) made.unshift((await api.write("/v1/agents", { name: `L${n}`, model: "m" })).id);
    const whole = await allPages(api, "/v1/agents?limit=1000");
    expect(ids(whole.items).slice(0, 7)).toEqual(made);
    const paged = await allPages(api, "/v1/agents?limit=3");
    expect(paged.items).toEqual(whole.items);
    expect(new Set(paged.sizes.slice(0, -1))).toEqual(new Set([3]));
  });

  verifies("agents:list:archived", async () => {
    const agent = await api.write("/v1/agents", { name: "Old", model: "m" });
    await api.write(`/v1/agents/${agent.id}/archive`);
    const listed = async (query: string) => ids((await allPages(api, `/v1/agents?limit=100${query}`)).items);
    expect(await listed("")).not.toContain(agent.id);
    expect(await listed("&include_archived=false")).not.toContain(agent.id);
    expect(await listed("&include_archived=true")).toContain(agent.id);
  });

  verifies("agents:list:created-at", async () => {
    const [a, b] = [
      await api.write("/v1/agents", { name: "T1", model: "m" }),
      await api.write("/v1/agents", { name: "T2", model: "m" }),
    ];
    const listed = async (query: string) => ids((await allPages(api, `/v1/agents?limit=100&${query}`)).items);
    expect((await listed(`created_at[gte]=${b.created_at}`)).at(-1)).toBe(b.id);
    const [first, ...older] = await listed(`created_at[lte]=${a.created_at}`);
    expect([first, older.includes(b.id)]).toEqual([a.id, false]);
    expect(await listed(`created_at[gte]=${a.created_at}&created_at[lte]=${a.created_at}`)).toEqual([a.id]);
  });

  for (const limit of ["0", "-1", "1.5", "many", ""]) {
    verifies("agents:list:limit", `not ${limit || "empty"}`, async () => {
      await expectRefused(server, () => api.get(`/v1/agents?limit=${limit}`), 400, "limit");
    });
  }
});

describe("archive and versions", () => {
  verifies("agents:archive", async () => {
    const agent = await api.write("/v1/agents", { name: "A", model: "m" });
    const archived = await api.write(`/v1/agents/${agent.id}/archive`);
    expect(archived).toMatchObject({ id: agent.id, version: 1, archived_at: expect.stringMatching(TIME) });
    expect(await api.read(`/v1/agents/${agent.id}`)).toEqual(archived);
    expect((await api.write(`/v1/agents/${agent.id}/archive`)).archived_at).toBe(archived.archived_at);
  });

  verifies("agents:archive:sessions", async () => {
    const agent = await api.write("/v1/agents", { name: "A", model: "m" });
    const session = { agent: agent.id, environment_id: server.environmentId };
    const { id } = await api.write("/v1/sessions", session);
    await api.write(`/v1/agents/${agent.id}/archive`);
    await runTurn(api, await api.read(`/v1/sessions/${id}`), "go on");
    const refused = await api.post("/v1/sessions", session);
    expect([400, 409]).toContain(refused.status);
    expect(refused.body.error.message).toMatch(/archived/);
  });

  verifies("agents:versions", async () => {
    const agent = await api.write("/v1/agents", { name: "V1", model: "m" });
    const all = [agent];
    for (const name of ["V2", "V3", "V4", "V5"]) all.unshift(await api.write(`/v1/agents/${agent.id}`, { name }));
    const { items, sizes } = await allPages(api, `/v1/agents/${agent.id}/versions?limit=2`);
    expect(items).toEqual(all);
    expect(sizes).toEqual([2, 2, 1]);
    await expectRefused(server, () => api.get("/v1/agents/agent_nothing/versions"), 404);
  });
});
