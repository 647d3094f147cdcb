import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from "vitest";
import type { Event } from "../e2e/event-feed.ts";
import { type ScriptedServer, says, startScriptedServer } from "../e2e/scripted-model.ts";
import { isTurnEnd, message, type SessionDriver, toolResult } from "../e2e/session-driver.ts";
import { HandWorker, tokenOf } from "../faults/hand-worker.ts";
import { API_KEY } from "../server.ts";
import { checkedFetch } from "./answer-check.ts";
import { type Api, allPages, apiOf, type Body, expectError, ids, TIME } from "./api.ts";
import { isIdle, until } from "./driver.ts";
import { VERSIONS } from "./sdk-clients.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
/** The environment key's view of the API. */
let launcher: Api;
let worker: HandWorker;
let session: SessionDriver;
let use: Event;
beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
  launcher = apiOf(scripted.server, scripted.server.environmentKey);
  worker = new HandWorker(scripted);
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
  await scripted.server.database.pool.query("delete from environment_pollers");
  const waiting = await worker.waiting();
  ({ session } = waiting);
  use = waiting.uses[0] as Event;
});
afterEach(() => session.close());

const work = (path: string) => worker.work(path);
const items = async () => (await api.read(work("").slice(0, -1))).data;
const beat = (token: string, id: string, query = "") =>
  apiOf(scripted.server, token).post(work(`${id}/heartbeat${query}`));
const expecting = (last: unknown) => `?expected_last_heartbeat=${encodeURIComponent(String(last))}`;

verifies("work:resource", async () => {
  const claim = await worker.active();
  const item = await api.read(work(claim.id));
  expect(item).toEqual({
    id: expect.stringMatching(/^work_/),
    type: "work",
    environment_id: scripted.server.environmentId,
    state: "active",
    data: { type: "session", id: session.id },
    metadata: {},
    secret: null,
    created_at: expect.stringMatching(TIME),
    acknowledged_at: expect.stringMatching(TIME),
    started_at: expect.stringMatching(TIME),
    latest_heartbeat_at: expect.stringMatching(TIME),
    stop_requested_at: null,
    stopped_at: null,
  });
  const stopped = await apiOf(scripted.server, claim.token).write(work(`${claim.id}/stop`), { force: true });
  expect(stopped).toMatchObject({
    state: "stopped",
    secret: null,
    stop_requested_at: expect.stringMatching(TIME),
    stopped_at: expect.stringMatching(TIME),
  });
});

verifies("work:created", async () => {
  await session.send(message("another"), message("and another"));
  expect((await items()).map(({ state, data }) => [state, data])).toEqual([
    ["queued", { type: "session", id: session.id }],
  ]);
  await worker.active();
  await session.send(message("a third"));
  expect((await items()).map(({ state }) => state)).toEqual(["active"]);
});

verifies("work:poll", async () => {
  const item = await launcher.read(work("poll"));
  expect(item).toMatchObject({ state: "queued", data: { type: "session", id: session.id }, acknowledged_at: null });
  expect(item["secret"]).toMatch(/^[A-Za-z0-9_-]+$/);
  const secret = JSON.parse(Buffer.from(String(item["secret"]), "base64url").toString());
  expect(secret).toEqual({ sessions_token: expect.stringMatching(/^sk-mango-ses-/) });
});

verifies("work:poll:empty", async () => {
  await worker.claimed();
  const answer = await launcher.get(work("poll"));
  expect([answer.status, answer.text]).toEqual([200, "null"]);
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
});

verifies("work:poll:block", async () => {
  await worker.claimed();
  const waiting = launcher.read(work("poll?block_ms=20000"));
  const other = await worker.waiting();
  expect((await waiting)["data"]).toEqual({ type: "session", id: other.session.id });
  other.session.close();
  expect((await launcher.get(work("poll?block_ms=1"))).text).toBe("null");
});

for (const query of ["block_ms=20001", "block_ms=-1", "block_ms=soon", "reclaim_older_than_ms=-1"]) {
  verifies("work:poll:invalid", query, async () => {
    expectError(await launcher.get(work(`poll?${query}`)), 400, query.split("=")[0]);
  });
}
verifies("work:poll:invalid", "a worker id that is too long", async () => {
  const answer = await launcher.get(work("poll"), { "anthropic-worker-id": "w".repeat(256) });
  expectError(answer, 400, "Anthropic-Worker-ID");
  expect((await items()).map(({ state }) => state)).toEqual(["queued"]);
});

verifies("work:poll:reclaim", async () => {
  const first = await worker.claimed();
  const claimedAgo = (milliseconds: number) =>
    scripted.server.database.pool.query("update work_items set claimed_at = now() - make_interval(secs => $1)", [
      milliseconds / 1000,
    ]);
  expect(await worker.poll()).toBeNull();
  await claimedAgo(2000);
  expect(await worker.poll()).toBeNull();
  const early = await worker.claimed("?reclaim_older_than_ms=1500");
  expect([early.id, early.token === first.token]).toEqual([first.id, false]);
  await claimedAgo(5001);
  expect((await worker.claimed()).id).toBe(first.id);
});

verifies("work:poll:archived-session", async () => {
  const claim = await worker.active();
  await api.write(`/v1/sessions/${session.id}/archive`);
  expect(await api.read(work(claim.id))).toMatchObject({ state: "stopped", stopped_at: expect.stringMatching(TIME) });
  expect((await beat(claim.token, claim.id)).status).toBe(401);
  expect((await launcher.post(work(`${claim.id}/stop`), { force: true })).status).toBe(409);
  await worker.expireLeases();
  expect(await worker.poll()).toBeNull();
  expect((await items()).map(({ state }) => state)).toEqual(["stopped"]);
});
verifies("work:poll:archived-session", "a deleted session", async () => {
  const claim = await worker.acknowledged();
  await api.remove(`/v1/sessions/${session.id}`);
  expect((await apiOf(scripted.server, claim.token).get(`/v1/sessions/${session.id}`)).status).toBe(401);
  await worker.expireLeases();
  expect(await worker.poll()).toBeNull();
  expect((await items()).map(({ state }) => state)).toEqual(["stopped"]);
});

verifies("work:poll:archived-environment", async () => {
  const environment = await api.write("/v1/environments", { name: "Old" });
  const key = await api.write(`/v1/environments/${environment.id}/keys`, { name: "k" });
  const agent = await api.write("/v1/agents", { name: "A", model: "m", tools: [{ type: "agent_toolset_20260401" }] });
  const living = await api.write("/v1/sessions", { agent: agent.id, environment_id: environment.id });
  await api.write(`/v1/environments/${environment.id}/archive`);
  await scripted.script(says("Hello."));
  await api.write(`/v1/sessions/${living.id}/events`, { events: [message("hello")] });
  const polled = await apiOf(scripted.server, String(key["secret"])).read(
    `/v1/environments/${environment.id}/work/poll`,
  );
  expect(polled).toMatchObject({ data: { type: "session", id: living.id } });
  await until(api, living, isIdle("end_turn"));
});

verifies("work:ack", async () => {
  const claim = await worker.claimed();
  const first = await launcher.write(work(`${claim.id}/ack`));
  expect(first).toMatchObject({ state: "starting", acknowledged_at: expect.stringMatching(TIME), secret: null });
  expect(await launcher.write(work(`${claim.id}/ack`))).toEqual(first);
  expect(await apiOf(scripted.server, claim.token).write(work(`${claim.id}/ack`))).toEqual(first);
});

verifies("work:ack:conflict", async () => {
  const [queued] = await items();
  expect((await launcher.post(work(`${queued?.id}/ack`))).status).toBe(409);
  const claim = await worker.active();
  expectError(await launcher.post(work(`${claim.id}/ack`)), 409, "active");
});

verifies("work:token:after-ack", async () => {
  const claim = await worker.claimed();
  const token = apiOf(scripted.server, claim.token);
  expectError(await token.get(`/v1/sessions/${session.id}`), 403, "not acknowledged");
  expectError(
    await token.post(`/v1/sessions/${session.id}/events`, { events: [toolResult(use, "early")] }),
    403,
    "not acknowledged",
  );
  await launcher.write(work(`${claim.id}/ack`));
  expect((await token.get(`/v1/sessions/${session.id}`)).status).toBe(200);
});

verifies("work:heartbeat", async () => {
  const claim = await worker.acknowledged();
  const first = await beat(claim.token, claim.id, expecting("NO_HEARTBEAT"));
  expect(first.body).toEqual({
    type: "work_heartbeat",
    last_heartbeat: expect.stringMatching(TIME),
    lease_extended: true,
    state: "active",
    ttl_seconds: 60,
  });
  const second = await beat(claim.token, claim.id, expecting(first.body["last_heartbeat"]));
  expect(second.status).toBe(200);
  expect(second.body["last_heartbeat"]).not.toBe(first.body["last_heartbeat"]);
});

verifies("work:heartbeat:precondition", async () => {
  const claim = await worker.acknowledged();
  const { last_heartbeat: last } = (await beat(claim.token, claim.id, expecting("NO_HEARTBEAT"))).body;
  for (const wrong of ["NO_HEARTBEAT", String(last).replace("Z", "+00:00"), String(last).slice(0, -2)]) {
    const answer = await beat(claim.token, claim.id, expecting(wrong));
    expect(answer.status).toBe(412);
    expect(answer.body).toEqual({
      type: "error",
      error: {
        type: "invalid_request_error",
        message: `Heartbeat precondition failed: expected ${wrong}, actual was ${last}`,
        details: {
          error_code: "heartbeat_precondition_failed",
          current_state: { state: "active", last_heartbeat: last, lease_extended: false, ttl_seconds: 60 },
        },
      },
      request_id: expect.stringMatching(/^req_/),
    });
  }
});
verifies("work:heartbeat:precondition", "before the ack nothing can be extended", async () => {
  const claim = await worker.claimed();
  const answer = await beat(claim.token, claim.id, expecting("2026-12-01T00:00:00Z"));
  expect(answer.body.error).toMatchObject({
    message: "Heartbeat precondition failed: expected 2026-12-01T00:00:00Z, actual was NULL",
    details: { current_state: { state: "queued", last_heartbeat: null } },
  });
});

verifies("work:heartbeat:unconditional", async () => {
  const claim = await worker.acknowledged();
  expect((await beat(claim.token, claim.id)).body).toMatchObject({ lease_extended: true, state: "active" });
  expect((await beat(claim.token, claim.id)).body).toMatchObject({ lease_extended: true, state: "active" });
});

for (const [asked, given] of [
  ["1", 10],
  ["10", 10],
  ["120", 120],
  ["86400", 300],
] as const) {
  verifies("work:heartbeat:ttl", `${asked} gives ${given}`, async () => {
    const claim = await worker.acknowledged();
    const { body } = await beat(claim.token, claim.id, `?desired_ttl_seconds=${asked}`);
    expect(body["ttl_seconds"]).toBe(given);
    const { rows } = await scripted.server.database.pool.query(
      "select extract(epoch from lease_expires_at - latest_heartbeat_at)::int as seconds from work_items where id = $1",
      [claim.id],
    );
    expect(rows).toEqual([{ seconds: given }]);
  });
}

verifies("work:heartbeat:stopping", async () => {
  const claim = await worker.active();
  await api.write(work(`${claim.id}/stop`));
  const answer = await beat(claim.token, claim.id, expecting("of yesterday"));
  expect([answer.status, answer.body["state"], answer.body["lease_extended"]]).toEqual([200, "stopping", false]);
});

verifies("work:stop", async () => {
  const claim = await worker.active();
  const token = apiOf(scripted.server, claim.token);
  const asked = await api.write(work(`${claim.id}/stop`));
  expect(asked).toMatchObject({ state: "stopping", stop_requested_at: expect.stringMatching(TIME), stopped_at: null });
  expect(await token.write(work(`${claim.id}/stop`), {})).toMatchObject({ state: "stopped" });
  expectError(await launcher.post(work(`${claim.id}/stop`)), 409, "stopped");
});

verifies("work:stop:force", async () => {
  const claim = await worker.active();
  expect(await api.write(work(`${claim.id}/stop`), { force: true })).toMatchObject({ state: "stopped" });
  await session.until(isTurnEnd);
});

verifies("work:stop:invalid", async () => {
  const claim = await worker.active();
  for (const body of [{ force: "yes" }, { gently: true }]) {
    expectError(await api.post(work(`${claim.id}/stop`), body), 400, Object.keys(body)[0]);
  }
  expect(await api.write(work(`${claim.id}/stop`), { force: null })).toMatchObject({ state: "stopping" });
});

verifies("work:stats", async () => {
  const other = await worker.waiting();
  const [newest, oldest] = await items();
  const stats = { type: "work_queue_stats", workers_polling: null };
  const read = () => launcher.read(work("stats"));
  expect(await read()).toEqual({ ...stats, depth: 2, pending: 0, oldest_queued_at: oldest?.created_at });
  await worker.claimed();
  expect(await read()).toEqual({ ...stats, depth: 1, pending: 1, oldest_queued_at: oldest?.created_at });
  await launcher.write(work(`${oldest?.id}/ack`));
  expect(await read()).toEqual({ ...stats, depth: 1, pending: 0, oldest_queued_at: newest?.created_at });
  await worker.acknowledged();
  expect(await api.read(work("stats"))).toEqual({ ...stats, depth: 0, pending: 0, oldest_queued_at: null });
  other.session.close();
});

verifies("work:stats:workers", async () => {
  const polling = async () => (await api.read(work("stats")))["workers_polling"];
  expect(await polling()).toBeNull();
  await launcher.get(work("poll"));
  expect(await polling()).toBeNull();
  for (const id of ["one", "two", "one"]) await launcher.get(work("poll"), { "anthropic-worker-id": id });
  expect(await polling()).toBe(2);
  await scripted.server.database.pool.query(
    "update environment_pollers set polled_at = now() - interval '31 s' where worker_id = 'one'",
  );
  expect(await polling()).toBe(1);
  await launcher.get(work("poll"), { "anthropic-worker-id": "one" });
  expect(await polling()).toBe(2);
});

verifies("work:get", async () => {
  const [item] = await items();
  expect(await api.read(work(item?.id ?? ""))).toEqual(item);
});

verifies("work:list", async () => {
  const claim = await worker.active();
  for (let count = 0; count < 4; count += 1) {
    // Each end leaves a successor, for the call is still open.
    const [live] = await items();
    await api.write(work(`${live?.id}/stop`), { force: live?.["state"] !== "active" });
    if (live?.id === claim.id) await apiOf(scripted.server, claim.token).write(work(`${claim.id}/stop`), {});
  }
  const { items: listed, sizes } = await allPages(api, `${work("").slice(0, -1)}?limit=2`);
  expect(sizes).toEqual([2, 2, 1]);
  const { rows } = await scripted.server.database.pool.query<{ id: string }>(
    "select id from work_items order by created_at desc, id desc",
  );
  expect(ids(listed)).toEqual(rows.map(({ id }) => id));
  expect(listed.every((item) => item["secret"] === null)).toBe(true);
  const other = await api.write("/v1/environments", { name: "Other" });
  const { next_page: page } = await api.read(`${work("").slice(0, -1)}?limit=2`);
  expectError(await api.get(`/v1/environments/${other.id}/work?page=${encodeURIComponent(String(page))}`), 400, "page");
});

verifies("work:update", async () => {
  const [item] = await items();
  const path = work(item?.id ?? "");
  expect((await api.write(path, { metadata: { a: "1", b: "2" } }))["metadata"]).toEqual({ a: "1", b: "2" });
  expect((await api.write(path, { metadata: { a: null, c: "3" } }))["metadata"]).toEqual({ b: "2", c: "3" });
  expect((await api.write(path, {}))["metadata"]).toEqual({ b: "2", c: "3" });
  expect((await worker.poll()) as unknown as Body).toMatchObject({ metadata: { b: "2", c: "3" } });
});

for (const [name, metadata] of [
  ["17 pairs", Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"]))],
  ["a long key", { ["k".repeat(65)]: "v" }],
  ["a long value", { k: "v".repeat(513) }],
  ["a number", { k: 1 }],
] as const) {
  verifies("work:update:invalid", name, async () => {
    const [item] = await items();
    const answer = await api.post(work(item?.id ?? ""), { metadata });
    expectError(answer, 400, "metadata");
    expect(answer.body.error.details?.error_code).toBe("invalid_metadata");
    expect((await api.read(work(item?.id ?? "")))["metadata"]).toEqual({});
  });
}

verifies("work:not-found", async () => {
  for (const path of [work("work_nothing"), "/v1/environments/env_nothing/work/work_nothing"]) {
    expectError(await api.get(path), 404);
    expectError(await api.post(path, { metadata: {} }), 404);
    expectError(await api.post(`${path}/stop`), 404);
  }
  expectError(await api.get("/v1/environments/env_nothing/work"), 404);
  expectError(await api.get("/v1/environments/env_nothing/work/stats"), 404);
  for (const call of ["ack", "stop", "fail"]) {
    expectError(await launcher.post(work(`work_nothing/${call}`), call === "fail" ? { message: "x" } : undefined), 404);
  }
});

describe.each(VERSIONS)("SDK %s", (_version, Client) => {
  verifies("work:sdk", async () => {
    const environmentId = scripted.server.environmentId;
    const options = { baseURL: scripted.server.url, maxRetries: 0, fetch: checkedFetch };
    const application = new Client({ ...options, apiKey: API_KEY }).beta.environments.work;
    const environment = new Client({ ...options, apiKey: null, authToken: scripted.server.environmentKey } as never)
      .beta.environments.work;
    const polled = await environment.poll(environmentId, { block_ms: 999, "Anthropic-Worker-ID": "sdk" });
    if (polled === null) throw new Error("There was no work for a session that waits for a worker.");
    expect((await environment.ack(polled.id, { environment_id: environmentId })).state).toBe("starting");
    const authToken = tokenOf(polled as never);
    const holder = new Client({ ...options, apiKey: null, authToken } as never).beta.environments.work;
    const beat = await holder.heartbeat(polled.id, {
      environment_id: environmentId,
      expected_last_heartbeat: "NO_HEARTBEAT",
    });
    expect([beat.state, beat.lease_extended]).toEqual(["active", true]);
    expect(await environment.stats(environmentId)).toMatchObject({ depth: 0, pending: 0, workers_polling: 1 });
    expect((await application.retrieve(polled.id, { environment_id: environmentId })).id).toBe(polled.id);
    const updated = await application.update(polled.id, { environment_id: environmentId, metadata: { a: "1" } });
    expect(updated.metadata).toEqual({ a: "1" });
    const listed = [];
    for await (const item of application.list(environmentId)) listed.push(item.id);
    expect(listed).toEqual([polled.id]);
    await expect(
      holder.heartbeat(polled.id, { environment_id: environmentId, expected_last_heartbeat: "another" }),
    ).rejects.toMatchObject({ status: 412 });
    expect((await application.stop(polled.id, { environment_id: environmentId })).state).toBe("stopping");
    expect((await holder.stop(polled.id, { environment_id: environmentId, force: true })).state).toBe("stopped");
    await expect(environment.stop(polled.id, { environment_id: environmentId })).rejects.toMatchObject({ status: 409 });
  });
});
