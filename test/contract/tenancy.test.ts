/** Two workspaces: every route of the OpenAPI document, with the ids of one and the key of the other. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import { type Api, allPages, type Body, expectEnvelope, ids, OTHER_KEY, otherWorkspace, rowCounts } from "./api.ts";
import { list, newSession } from "./driver.ts";
import { TABLE, type World } from "./key-table.ts";
import { keyWorld, probe } from "./key-world.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
let stranger: Api;
let world: World;
let victim: Body;
beforeAll(async () => {
  scripted = await startScriptedServer();
  stranger = await otherWorkspace(scripted.server);
  ({ api, ids: world, victim } = await keyWorld(scripted));
});
afterAll(() => scripted.close());

verifies("tenancy:complete", async () => {
  const document = JSON.parse(await readFile(new URL("../../docs/openapi.json", import.meta.url), "utf8"));
  const served = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(Object.keys(TABLE).toSorted()).toEqual(served.toSorted());
});

describe("another workspace", () => {
  for (const [route, row] of Object.entries(TABLE)) {
    verifies("tenancy:foreign-id", route, async () => {
      const before = await rowCounts(scripted.server);
      const ledger = await list(api, victim);
      const answer = await probe(scripted, route, row, world, OTHER_KEY);
      for (const id of Object.values(world)) expect(answer.text.replace(/"message":"[^"]*"/, "")).not.toContain(id);
      if (row.foreign === "own" || row.foreign === "empty") {
        expect(answer.status).toBe(200);
        return;
      }
      expectEnvelope(answer);
      expect(answer.status).toBe(row.foreign);
      expect(await rowCounts(scripted.server)).toEqual(before);
      expect(await list(api, victim)).toEqual(ledger);
    });
  }

  verifies("tenancy:references", async () => {
    const own = await stranger.write("/v1/agents", { name: "A", model: "m" });
    const environment = await stranger.write("/v1/environments", { name: "Mine" });
    const before = await rowCounts(scripted.server);
    for (const agent of [
      world.agent,
      { type: "agent", id: world.agent, version: 1 },
      { type: "agent_with_overrides", id: world.agent },
    ]) {
      expect((await stranger.post("/v1/sessions", { agent, environment_id: environment.id })).status).toBe(404);
    }
    expect((await stranger.post("/v1/sessions", { agent: own.id, environment_id: world.environment })).status).toBe(
      404,
    );
    expect(await rowCounts(scripted.server)).toEqual(before);
  });
  verifies("tenancy:references", "a call of a foreign session", async () => {
    const [use] = (await list(api, victim)).filter(({ type }) => type === "agent.tool_use");
    const environment = await stranger.write("/v1/environments", { name: "Mine" });
    const own = await newSession(stranger, environment.id);
    for (const event of [
      { type: "user.tool_result", tool_use_id: use?.id },
      { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" },
      { type: "user.custom_tool_result", custom_tool_use_id: use?.id },
      { type: "user.interrupt", session_thread_id: world.thread },
    ]) {
      expect((await stranger.post(`/v1/sessions/${own.id}/events`, { events: [event] })).status).toBe(404);
    }
  });

  verifies("tenancy:lists", async () => {
    for (const path of [
      "/v1/agents?include_archived=true",
      "/v1/environments?include_archived=true",
      "/v1/sessions?include_archived=true",
    ]) {
      const [mine, theirs] = [(await allPages(api, path)).items, (await allPages(stranger, path)).items];
      expect(ids(mine).filter((id) => ids(theirs).includes(id))).toEqual([]);
    }
    expect((await stranger.read(`/v1/sessions?agent_id=${world.agent}`)).data).toEqual([]);
    const cursor = (await api.read("/v1/agents?limit=1")).next_page;
    if (cursor !== null) {
      const answer = await stranger.get(`/v1/agents?limit=100&page=${encodeURIComponent(cursor)}`);
      if (answer.status === 200) expect(ids(answer.body.data)).not.toContain(world.agent);
      else expect(answer.status).toBe(400);
    }
  });
});
