import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Event } from "../e2e/event-feed.ts";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { isTurnEnd, message, SessionDriver, textOf, toolResult, toolset } from "../e2e/session-driver.ts";

interface Work {
  readonly id: string;
  readonly state: string;
  readonly data: { readonly id: string };
  readonly secret: string | null;
}

let scripted: ScriptedServer;
let session: SessionDriver;
let use: Event;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
  await scripted.script(calls(toolUse("toolu_1", "bash", { command: "ls" })), says("Done."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  const [call] = await session.untilAsked();
  if (call === undefined) throw new Error("The idle named nothing.");
  use = call;
});
afterEach(() => session.close());

const NO_HEARTBEAT = "heartbeat?expected_last_heartbeat=NO_HEARTBEAT";
const tokenOf = (work: Work) =>
  (JSON.parse(Buffer.from(work.secret ?? "", "base64url").toString()) as { sessions_token: string }).sessions_token;

async function ask(
  key: string,
  path: string,
  json?: unknown,
): Promise<{ status: number; body: Work & { data: Event[] } }> {
  const response = await scripted.server.request(path, { key, ...(json !== undefined && { json }) });
  return { status: response.status, body: JSON.parse((await response.text()) || "null") };
}
const environmentKey = () => scripted.server.environmentKey;
const work = (path: string) => `/v1/environments/${scripted.server.environmentId}/work/${path}`;
const poll = async (query = "") => (await ask(environmentKey(), work(`poll${query}`))).body as Work | null;
const stop = (key: string, id: string, json: object = {}) => ask(key, work(`${id}/stop`), json);
const items = async () =>
  (
    await scripted.server.database.pool.query(
      "select id, state, token_digest is not null as held from work_items order by created_at, id",
    )
  ).rows;
const expireLeases = () =>
  scripted.server.database.pool.query(
    "update work_items set lease_expires_at = now() - interval '1 s' where lease_expires_at is not null",
  );

/** A claim whose token opens its session: acknowledged, without a heartbeat. */
async function acknowledged(): Promise<{ id: string; token: string }> {
  const item = await claimed();
  await ask(environmentKey(), work(`${item.id}/ack`), {});
  return item;
}

async function claimed(): Promise<{ id: string; token: string }> {
  const item = await poll();
  if (item === null) throw new Error("There was no work for a session that waits for a worker.");
  return { id: item.id, token: tokenOf(item) };
}

/** A worker that has beaten once. */
async function active(): Promise<{ id: string; token: string }> {
  const item = await acknowledged();
  const beat = await ask(item.token, work(`${item.id}/${NO_HEARTBEAT}`), {});
  expect([beat.status, beat.body.state]).toEqual([200, "active"]);
  return item;
}

test("an active item that is asked to stop with a call open has a successor, which waits until the first has stopped", async () => {
  const first = await active();

  const asked = await stop(first.token, first.id);

  expect([asked.status, asked.body.state]).toEqual([200, "stopping"]);
  expect(await items()).toEqual([
    { id: first.id, state: "stopping", held: true },
    { id: expect.any(String), state: "queued", held: false },
  ]);
  // Two workers at once would both be shown the open call.
  expect(await poll()).toBeNull();
  // The first finishes what it runs: its token works until it confirms.
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(200);
  const confirmed = await stop(first.token, first.id);
  expect([confirmed.status, confirmed.body.state]).toEqual([200, "stopped"]);
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);

  const second = await acknowledged();
  expect(second.id).not.toBe(first.id);
  const answer = await ask(second.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  expect(answer.status).toBe(200);
  await session.until(isTurnEnd);
});

test("the stopping worker may still post the result of its call; then its successor finds nothing open", async () => {
  const first = await active();
  await stop(first.token, first.id);
  const answer = await ask(first.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  expect(answer.status).toBe(200);
  await session.until(isTurnEnd);
  expect((await session.list()).filter(({ type }) => type === "user.tool_result")).toHaveLength(1);
});

test("a stopping item whose worker died is ended by the next poll: its call is closed before the successor is claimed (F03)", async () => {
  const first = await active();
  await stop(first.token, first.id);
  expect(await poll()).toBeNull();
  await expireLeases();

  // The dead one's token opens nothing from the instant at which its lease ran out.
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);
  const second = await poll("?block_ms=5000");

  expect(second?.data.id).toBe(session.id);
  expect(await items()).toEqual([
    { id: first.id, state: "stopped", held: false },
    { id: second?.id, state: "queued", held: true },
  ]);
  const closed = await session.until(({ type }) => type === "user.tool_result");
  expect(closed).toMatchObject({ tool_use_id: use.id, is_error: true });
  expect(textOf(closed)).toMatch(/lost its lease.*unknown/);
  await session.until(isTurnEnd);
});

test("a message that arrives while the worker stops does not bring a second worker beside it", async () => {
  const first = await active();
  await stop(first.token, first.id);
  await session.send(message("another"));
  expect(await poll()).toBeNull();
  expect((await items()).map(({ state }) => state)).toEqual(["stopping", "queued"]);
});

test.each([
  ["claimed", claimed],
  ["acknowledged", acknowledged],
] as const)(
  "an item that was only %s goes back to the queue when it is stopped, and the old token is dead",
  async (_, take) => {
    const item = await take();

    const stopped = await stop(environmentKey(), item.id);

    expect([stopped.status, stopped.body.state]).toEqual([200, "queued"]);
    expect(await items()).toEqual([{ id: item.id, state: "queued", held: false }]);
    const path = `/v1/sessions/${session.id}`;
    expect((await ask(item.token, path)).status).toBe(401);
    expect((await ask(item.token, `${path}/events`, { events: [toolResult(use, "late")] })).status).toBe(401);
    expect((await ask(item.token, work(`${item.id}/${NO_HEARTBEAT}`), {})).status).toBe(401);
    const again = await acknowledged();
    expect(again.id).toBe(item.id);
    expect((await ask(item.token, path)).status).toBe(401);
    expect((await ask(again.token, path)).status).toBe(200);
  },
);

test("a stop with force kills the token at once, and the open call gets a new item that can be claimed at once", async () => {
  const first = await active();
  const stopped = await stop(first.token, first.id, { force: true });
  expect([stopped.status, stopped.body.state]).toEqual([200, "stopped"]);
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);
  expect((await claimed()).id).not.toBe(first.id);
});

test("a stop of a worker without an open call queues nothing", async () => {
  const first = await active();
  await ask(first.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  await session.until(isTurnEnd);
  await stop(first.token, first.id);
  expect(await items()).toEqual([{ id: first.id, state: "stopping", held: true }]);
  await stop(first.token, first.id);
  expect(await items()).toEqual([{ id: first.id, state: "stopped", held: false }]);
});
