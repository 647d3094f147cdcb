/** Two workspaces and every kind of key, on every route of the OpenAPI document. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { addEnvironmentKey } from "../../shared/workspaces/keys.ts";
import { calls, type ScriptedServer, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { API_KEY } from "../server.ts";
import {
  type Answer,
  type Api,
  allPages,
  apiOf,
  type Body,
  expectEnvelope,
  ids,
  OTHER_KEY,
  otherWorkspace,
  rowCounts,
} from "./api.ts";
import { builtin, isIdle, list, message, newSession, send, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

/** What the victim's workspace holds: a session whose call waits for the worker that has claimed it. */
interface World {
  readonly agent: string;
  readonly environment: string;
  readonly session: string;
  readonly thread: string;
  readonly work: string;
}

let scripted: ScriptedServer;
let api: Api;
let stranger: Api;
let world: World;
let victim: Body;
const keys = { api: API_KEY, environment: "sk-mango-env-contract", work: "", none: null as string | null };

beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
  stranger = await otherWorkspace(scripted.server);
  const environment = await api.write("/v1/environments", { name: "Secret environment" });
  await addEnvironmentKey(scripted.server.database.pool, {
    workspaceId: "wrkspc_local",
    environmentId: environment.id,
    name: "contract",
    secret: keys.environment,
  });
  await scripted.script(calls(toolUse("toolu_1", "bash", { command: "ls" })));
  victim = await newSession(api, environment.id, { agent: { tools: [builtin()] } });
  await send(api, victim, message("a secret task"));
  await until(api, victim, isIdle("requires_action"));
  const [thread] = (await api.read(`/v1/sessions/${victim.id}/threads`)).data;
  const worker = apiOf(scripted.server, keys.environment);
  const work = await worker.read(`/v1/environments/${environment.id}/work/poll`);
  keys.work = JSON.parse(Buffer.from(String(work["secret"]), "base64url").toString()).sessions_token;
  await worker.write(`/v1/environments/${environment.id}/work/${work.id}/ack`);
  world = {
    agent: victim.agent.id,
    environment: environment.id,
    session: victim.id,
    thread: thread?.id ?? "",
    work: work.id,
  };
});
afterAll(() => scripted.close());

/** Things of one's own to destroy, so that the world stays. */
async function fresh(): Promise<World> {
  const environment = await api.write("/v1/environments", { name: "Fresh" });
  const session = await newSession(api, scripted.server.environmentId);
  return { ...world, agent: session.agent.id, environment: environment.id, session: session.id };
}

type Expected = "ok" | 401 | 403 | 404;
interface Row {
  readonly body?: (ids: World) => unknown;
  readonly query?: string;
  readonly api: Expected;
  readonly environment: Expected;
  readonly work: Expected;
  /** With another workspace's API key: `own` where the route names no id, `empty` for lists. */
  readonly foreign: "own" | "empty" | 403 | 404;
}
/** Application routes: nobody but an API key. */
const application = { api: "ok", environment: 403, work: 403 } as const;
/** What the worker of one session may do too. */
const shared = { api: "ok", environment: 403, work: "ok" } as const;
const agentBody = () => ({ name: "A", model: "m" });

const TABLE: Readonly<Record<string, Row>> = {
  "POST /v1/agents": { ...application, foreign: "own", body: agentBody },
  "GET /v1/agents": { ...application, foreign: "empty" },
  "GET /v1/agents/{agent_id}": { ...application, foreign: 404 },
  "POST /v1/agents/{agent_id}": { ...application, foreign: 404, body: () => ({ description: "d" }) },
  "POST /v1/agents/{agent_id}/archive": { ...application, foreign: 404 },
  "GET /v1/agents/{agent_id}/versions": { ...application, foreign: 404 },
  "POST /v1/environments": { ...application, foreign: "own", body: () => ({ name: "E" }) },
  "GET /v1/environments": { ...application, foreign: "empty" },
  "GET /v1/environments/{environment_id}": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}": { ...application, foreign: 404, body: () => ({ description: "d" }) },
  "DELETE /v1/environments/{environment_id}": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}/archive": { ...application, foreign: 404 },
  "POST /v1/sessions": {
    ...application,
    foreign: 404,
    body: ({ agent }) => ({ agent, environment_id: world.environment }),
  },
  "GET /v1/sessions": { ...application, foreign: "empty" },
  "GET /v1/sessions/{session_id}": { ...shared, foreign: 404 },
  "POST /v1/sessions/{session_id}": { ...application, foreign: 404, body: () => ({ title: "T" }) },
  "DELETE /v1/sessions/{session_id}": { ...application, foreign: 404 },
  "POST /v1/sessions/{session_id}/archive": { ...application, foreign: 404 },
  "POST /v1/sessions/{session_id}/events": {
    ...application,
    foreign: 404,
    body: () => ({ events: [{ type: "user.interrupt" }] }),
  },
  "GET /v1/sessions/{session_id}/events": { ...shared, foreign: 404 },
  "GET /v1/sessions/{session_id}/events/stream": { ...shared, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}/events": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}/stream": { ...application, foreign: 404 },
  "GET /v1/environments/{environment_id}/work/poll": { api: 403, environment: "ok", work: 403, foreign: 403 },
  "POST /v1/environments/{environment_id}/work/{work_id}/ack": {
    api: 403,
    environment: "ok",
    work: "ok",
    foreign: 403,
  },
  "POST /v1/environments/{environment_id}/work/{work_id}/heartbeat": {
    api: 403,
    environment: "ok",
    work: "ok",
    foreign: 403,
    query: "?expected_last_heartbeat=NO_HEARTBEAT",
  },
  "POST /v1/environments/{environment_id}/work/{work_id}/stop": {
    api: "ok",
    environment: "ok",
    work: "ok",
    foreign: 404,
  },
};

const NOUNS: Readonly<Record<string, keyof World>> = {
  agent_id: "agent",
  environment_id: "environment",
  session_id: "session",
  thread_id: "thread",
  work_id: "work",
};
/** The request of a row with these ids; a stream is given up once it has answered. */
async function probe(route: string, row: Row, ids: World, key: string | null): Promise<Answer> {
  const [method = "", template = ""] = route.split(" ");
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[NOUNS[name] ?? "agent"]) + (row.query ?? "");
  const abort = new AbortController();
  const body = row.body?.(ids);
  const init = { method, key, signal: abort.signal, ...(body !== undefined && { json: body, method }) };
  const response = await scripted.server.request(path, init);
  const streams = response.headers.get("content-type")?.startsWith("text/event-stream");
  const text = streams ? "{}" : await response.text();
  abort.abort();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}

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
      const answer = await probe(route, row, world, OTHER_KEY);
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
    const own = await stranger.write("/v1/agents", agentBody());
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

describe("kinds of keys", () => {
  verifies("tenancy:key-kinds", "a work token posts results and nothing else", async () => {
    const worker = apiOf(scripted.server, keys.work);
    const path = `/v1/sessions/${world.session}/events`;
    for (const event of [
      message("hello"),
      { type: "user.interrupt" },
      { type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "allow" },
    ]) {
      const answer = await worker.post(path, { events: [event] });
      expect([event.type, answer.status]).toEqual([event.type, 403]);
    }
  });
  verifies("tenancy:key-kinds", "an environment key opens its own environment only", async () => {
    const worker = apiOf(scripted.server, keys.environment);
    const other = scripted.server.environmentId;
    for (const path of [`/v1/environments/${other}/work/poll`, `/v1/environments/env_nothing/work/poll`]) {
      expect((await worker.get(path)).status).toBe(404);
    }
    expect((await worker.post(`/v1/environments/${other}/work/${world.work}/ack`)).status).toBe(404);
  });

  /** Destroys what it is given: only with things of its own, and only where it is allowed. */
  const destroys = /^DELETE|archive$|POST .*\/events$/;
  for (const [route, row] of Object.entries(TABLE)) {
    for (const kind of ["none", "work", "environment", "api"] as const) {
      const expected = kind === "none" ? 401 : row[kind];
      verifies("tenancy:key-kinds", `${route} with ${kind}: ${expected}`, async () => {
        const mine = expected === "ok" && destroys.test(route) ? await fresh() : world;
        const before = await rowCounts(scripted.server);
        const answer = await probe(route, row, mine, keys[kind]);
        if (expected === "ok") {
          // Allowed; a stopped item or a lease held already may still be a 409 or a 412.
          expect({ status: answer.status, text: answer.text }).toMatchObject({
            status: expect.toBeOneOf([200, 409, 412]),
          });
          return;
        }
        expectEnvelope(answer);
        expect(answer.status).toBe(expected);
        expect(await rowCounts(scripted.server)).toEqual(before);
      });
    }
  }
});
