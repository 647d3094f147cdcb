import { afterAll, beforeAll, expect } from "vitest";
import { EventFeed, type Requests } from "../e2e/event-feed.ts";
import { held, type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import { type Api, allPages, apiOf, type Body, expectError, ids, TIME } from "./api.ts";
import { isIdle, list, message, newSession, runTurn, send, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
let session: Body;
let thread: Body;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
  session = await newSession(api, scripted.server.environmentId);
  thread = await primary(session);
});
afterAll(() => scripted.close());

async function primary(of: Body): Promise<Body> {
  const [only] = (await api.read(`/v1/sessions/${of.id}/threads`)).data;
  if (only === undefined) throw new Error("The session has no thread.");
  return only;
}
const path = (tail = "") => `/v1/sessions/${session.id}/threads/${thread.id}${tail}`;

verifies("threads:list", async () => {
  const { data, next_page } = await api.read(`/v1/sessions/${session.id}/threads`);
  expect(next_page).toBeNull();
  expect(data).toMatchObject([
    {
      id: expect.stringMatching(/^sthr_/),
      type: "session_thread",
      session_id: session.id,
      parent_thread_id: null,
      status: "idle",
      workflow_run_id: null,
      created_at: expect.stringMatching(TIME),
      updated_at: expect.stringMatching(TIME),
      archived_at: null,
    },
  ]);
  expect(data[0]?.agent).toEqual(session.agent);
  expect(data[0]).toHaveProperty("usage");
  expect(data[0]).toHaveProperty("stats");
});

verifies("threads:list:query", async () => {
  const listed = async (query: string) => ids((await api.read(`/v1/sessions/${session.id}/threads?${query}`)).data);
  expect(await listed("limit=1")).toEqual([thread.id]);
  expect(await listed("statuses[]=idle")).toEqual([thread.id]);
  expect(await listed("statuses[]=running&statuses[]=idle")).toEqual([thread.id]);
  expect(await listed("statuses[]=running")).toEqual([]);
  for (const [query, names] of [
    ["limit=0", "limit"],
    ["statuses[]=asleep", "statuses"],
    ["page=nonsense", "page"],
  ] as const) {
    expectError(await api.get(`/v1/sessions/${session.id}/threads?${query}`), 400, names);
  }
  expectError(await api.get("/v1/sessions/sesn_nothing/threads"), 404);
});

verifies("threads:get", async () => {
  expect(await api.read(path())).toMatchObject({ id: thread.id, session_id: session.id, agent: thread.agent });
  const other = await primary(await newSession(api, scripted.server.environmentId));
  for (const id of ["sthr_nothing", other.id, session.id]) {
    expectError(await api.get(`/v1/sessions/${session.id}/threads/${id}`), 404);
    expectError(await api.get(`/v1/sessions/${session.id}/threads/${id}/events`), 404);
    expectError(await api.get(`/v1/sessions/${session.id}/threads/${id}/stream`), 404);
  }
});

verifies("threads:status", async () => {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "At last."));
  const own = await newSession(api, scripted.server.environmentId);
  await send(api, own, message("go"));
  await until(api, own, ({ type }) => type === "span.model_request_start");
  expect((await primary(own)).status).toBe("running");
  gate.resolve();
  await until(api, own, isIdle("end_turn"));
  const idle = await primary(own);
  expect(idle).toMatchObject({ status: "idle", usage: { input_tokens: 11, output_tokens: 7 } });
  expect((idle["stats"] as { active_seconds: number }).active_seconds).toBeGreaterThan(0);
  await api.write(`/v1/sessions/${own.id}/archive`);
  expect((await primary(own)).status).toBe("terminated");
  await scripted.script();
});

verifies("threads:events", async () => {
  const events = await runTurn(api, session, "hello");
  expect((await api.read(path("/events"))).data).toEqual(events);
  const { items, sizes } = await allPages(api, `${path("/events")}?limit=4`);
  expect(items).toEqual(events);
  expect(Math.max(...sizes)).toBe(4);
  for (const limit of ["0", "1001"]) expectError(await api.get(`${path("/events")}?limit=${limit}`), 400, "limit");
  const cursor = (await api.read(`${path("/events")}?limit=2`)).next_page ?? "";
  const other = await newSession(api, scripted.server.environmentId);
  const elsewhere = `/v1/sessions/${other.id}/threads/${(await primary(other)).id}/events`;
  expectError(await api.get(`${elsewhere}?page=${encodeURIComponent(cursor)}`), 400, "page");
  expect((await list(api, session)).length).toBe(events.length);
});

verifies("threads:stream", async () => {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "To the thread."));
  // The feed opens a session's stream; here it is given the thread's.
  const onThread: Requests = {
    request: (target, init) =>
      scripted.server.request(target.replace(/\/events\/stream/, `/threads/${thread.id}/stream`), init),
  };
  const before = await list(api, session);
  const feed = await EventFeed.open(onThread, session.id, { query: "?event_deltas[]=agent.message" });
  await send(api, session, message("and on"));
  await feed.until(({ type }) => type === "event_delta");
  gate.resolve();
  await feed.until(({ type }) => type === "session.status_idle");
  feed.close();
  const events = await list(api, session);
  const shown = (of: EventFeed) =>
    of.frames.flatMap(({ id, data }) => (id === null ? [] : [JSON.parse(data ?? "").id]));
  expect(shown(feed).toSorted()).toEqual(ids(events.slice(before.length)).toSorted());
  expect(feed.events.map(({ type }) => type)).toContain("event_delta");
  for (const frame of feed.frames.filter(({ data }) => data !== null))
    expect(frame.name).toBe(JSON.parse(frame.data ?? "").type);

  const replayed = await EventFeed.open(onThread, session.id, { lastEventId: "0" });
  while (shown(replayed).length < events.length) await replayed.frame(() => true);
  replayed.close();
  expect(shown(replayed).toSorted()).toEqual(ids(events).toSorted());
});
