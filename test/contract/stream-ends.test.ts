import { afterAll, beforeAll, describe, expect } from "vitest";
import { memoryStreamPlaces, STREAMS_PER_KEY } from "../../shared/live/memory-stream-places.ts";
import { STREAMS_PER_SESSION } from "../../shared/live/stream-places.ts";
import { EventFeed } from "../e2e/event-feed.ts";
import { type ScriptedServer, startScriptedServer, startSilentProvider } from "../e2e/scripted-model.ts";
import { startTestServer } from "../server.ts";
import { type Api, apiOf, type Body, expectError, ids, OTHER_KEY, otherWorkspace } from "./api.ts";
import { isIdle, list, message, newSession, runTurn, send, types, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const create = () => newSession(api, scripted.server.environmentId);
const open = (session: Body) => EventFeed.open(scripted.server, session.id);
/** Waits for the end of a stream: how it ended, cleanly or broken off. */
const end = (feed: EventFeed) => feed.frame(() => false).catch((error: Error) => [error.message, error.cause] as const);

verifies("streams:deleted", async () => {
  const session = await create();
  const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
  const feeds = [await open(session), await open(session)];
  const response = await scripted.server.request(`/v1/sessions/${session.id}/threads/${thread?.id}/stream`);
  await api.remove(`/v1/sessions/${session.id}`);
  for (const feed of feeds) {
    const last = await feed.until(({ type }) => type === "session.deleted");
    expect(last).toMatchObject({ id: expect.stringMatching(/^sevt_/), type: "session.deleted" });
    expect(await end(feed)).toEqual([expect.stringMatching(/^The stream ended/), undefined]);
    expect(feed.frames.at(-1)?.name).toBe("session.deleted");
  }
  expect(await response.text()).toContain("event: session.deleted\n");
});

verifies("streams:archived", async () => {
  const session = await create();
  const feed = await open(session);
  await api.write(`/v1/sessions/${session.id}/archive`);
  expect((await feed.until(({ type }) => type === "session.status_terminated")).processed_at).not.toBeNull();
  feed.close();
});

verifies("streams:access", async () => {
  const other = await otherWorkspace(scripted.server);
  const environment = await other.write("/v1/environments", { name: "E" });
  const session = await newSession(other, environment.id);
  const response = await scripted.server.request(`/v1/sessions/${session.id}/events/stream`, {
    key: OTHER_KEY,
  });
  await scripted.server.database.pool.query(
    "update api_keys set revoked_at = now() where workspace_id = 'wrkspc_other'",
  );
  expect(await response.text()).not.toContain("event:");
  await scripted.server.database.pool.query("update api_keys set revoked_at = null");
});

describe("caps", () => {
  verifies("streams:cap:session", async () => {
    const session = await create();
    const feeds: EventFeed[] = [];
    let refused = await api.get(`/v1/sessions/sesn_nothing/events/stream`);
    for (let n = 0; n < 200; n += 1) {
      const opened = await open(session).catch(() => undefined);
      if (opened === undefined) break;
      feeds.push(opened);
    }
    refused = await api.get(`/v1/sessions/${session.id}/events/stream`);
    expectError(refused, 429);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    const another = await open(await create());
    another.close();
    feeds.pop()?.close();
    let again: EventFeed | undefined;
    for (let tries = 0; again === undefined && tries < 100; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      again = await open(session).catch(() => undefined);
    }
    expect(again).toBeDefined();
    for (const feed of [...feeds, again]) feed?.close();
  });

  verifies("streams:cap:key", async () => {
    const places = memoryStreamPlaces({ perKey: STREAMS_PER_KEY, perSession: STREAMS_PER_SESSION });
    const take = (keyId: string, sessionId: string) => places.take({ keyId, sessionId });
    const releases = await Promise.all(Array.from({ length: STREAMS_PER_KEY }, (_, n) => take("key_1", `sesn_${n}`)));
    await expect(take("key_1", "sesn_x")).rejects.toThrow(/streams are open/);
    await take("key_2", "sesn_x");
    await releases[0]?.();
    await releases[0]?.();
    await take("key_1", "sesn_x");
    await expect(take("key_1", "sesn_y")).rejects.toThrow(/streams are open/);
  });
});

verifies("streams:restart", async () => {
  const silent = await startSilentProvider();
  const first = await startScriptedServer();
  first.pointTo(silent.url);
  const before = apiOf(first.server);
  const session = await newSession(before, first.server.environmentId);
  const feed = await EventFeed.open(first.server, session.id);
  await send(before, session, message("hello"));
  const cut = await feed.frame(({ name }) => name === "span.model_request_start");
  await first.server.stopServer();
  silent.close();

  const second = await startTestServer({ database: first.server.database });
  const after = apiOf(second);
  const resumed = await EventFeed.open(second, session.id, { lastEventId: cut.id ?? "" });
  // The first server's lease on its model request may have to run out before the turn goes on.
  const events = await until(after, session, isIdle("end_turn"), 1, 24_000);
  await resumed.until(({ type }) => type === "session.status_idle");
  resumed.close();
  expect(new Set(ids(events)).size).toBe(events.length);
  expect(types(events).filter((type) => type === "agent.message")).toHaveLength(1);
  const positions = [...feed.frames, ...resumed.frames].flatMap(({ id }) => (id === null ? [] : [Number(id)]));
  expect(positions).toEqual(positions.map((_, n) => n + 1));
  expect(positions).toHaveLength(events.length);
  await runTurn(after, session, "and on");
  expect((await list(after, session)).at(-1)?.type).toBe("session.status_idle");
  await second.close();
});
