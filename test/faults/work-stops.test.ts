import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { stopQuietWork } from "../../shared/work/stop-quiet.ts";
import type { Event } from "../e2e/event-feed.ts";
import { type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import {
  ask as asks,
  confirmation,
  isTurnEnd,
  message,
  type SessionDriver,
  textOf,
  toolResult,
  toolset,
} from "../e2e/session-driver.ts";
import { API_KEY } from "../server.ts";
import { HandWorker, type HeldWork, NO_HEARTBEAT } from "./hand-worker.ts";

let scripted: ScriptedServer;
let worker: HandWorker;
let session: SessionDriver;
let use: Event;
beforeAll(async () => {
  scripted = await startScriptedServer();
  worker = new HandWorker(scripted);
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
  const waiting = await worker.waiting();
  ({ session } = waiting);
  use = waiting.uses[0] as Event;
});
afterEach(() => session.close());

const ask = (...request: Parameters<HandWorker["ask"]>) => worker.ask(...request);
const stop = (...request: Parameters<HandWorker["stop"]>) => worker.stop(...request);
const active = () => worker.active();
const items = () => worker.items();

test("an active item that is asked to stop with a call open has a successor, which waits until the first has stopped", async () => {
  const first = await active();

  const asked = await stop(first.token, first.id);

  expect([asked.status, asked.body.state]).toEqual([200, "stopping"]);
  expect(await items()).toEqual([
    { id: first.id, state: "stopping", held: true },
    { id: expect.any(String), state: "queued", held: false },
  ]);
  // Two workers at once would both be shown the open call.
  expect(await worker.poll()).toBeNull();
  // The first finishes what it runs: its token works until it confirms.
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(200);
  const confirmed = await stop(first.token, first.id);
  expect([confirmed.status, confirmed.body.state]).toEqual([200, "stopped"]);
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);

  const second = await worker.acknowledged();
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
  expect(await worker.poll()).toBeNull();
  await worker.expireLeases();

  // The dead one's token opens nothing from the instant at which its lease ran out.
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);
  const second = await worker.poll("?block_ms=5000");

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
  expect(await worker.poll()).toBeNull();
  expect((await items()).map(({ state }) => state)).toEqual(["stopping", "queued"]);
});

test.each([
  ["claimed", () => worker.claimed()],
  ["acknowledged", () => worker.acknowledged()],
] as const)(
  "an item that was only %s goes back to the queue when it is stopped, and the old token is dead",
  async (_, take: () => Promise<HeldWork>) => {
    const item = await take();

    const stopped = await worker.handBack(item.id);

    expect([stopped.status, stopped.body.state]).toEqual([200, "queued"]);
    expect(await items()).toEqual([{ id: item.id, state: "queued", held: false }]);
    const path = `/v1/sessions/${session.id}`;
    expect((await ask(item.token, path)).status).toBe(401);
    expect((await ask(item.token, `${path}/events`, { events: [toolResult(use, "late")] })).status).toBe(401);
    expect((await ask(item.token, worker.work(`${item.id}/${NO_HEARTBEAT}`), {})).status).toBe(401);
    const again = await worker.acknowledged();
    expect(again.id).toBe(item.id);
    expect((await ask(item.token, path)).status).toBe(401);
    expect((await ask(again.token, path)).status).toBe(200);
  },
);

test("an item that is handed back although its worker has read the events: what it may have begun is closed first (F03)", async () => {
  const first = await worker.acknowledged();
  const history = await ask(first.token, `/v1/sessions/${session.id}/events`);
  expect(history.body.data.map(({ id }) => id)).toContain(use.id);

  const handed = await worker.handBack(first.id);

  expect([handed.status, handed.body.state]).toEqual([200, "queued"]);
  const closed = await session.until(({ type }) => type === "user.tool_result");
  expect(closed).toMatchObject({ tool_use_id: use.id, is_error: true });
  expect(textOf(closed)).toMatch(/handed back.*unknown/);
  await session.until(isTurnEnd);
});

test("a worker that stops itself before its first heartbeat leaves open what it has only read", async () => {
  const first = await worker.acknowledged();
  await ask(first.token, `/v1/sessions/${session.id}/events`);
  expect((await stop(first.token, first.id)).body.state).toBe("queued");
  const second = await worker.acknowledged();
  const answer = await ask(second.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  expect(answer.status).toBe(200);
  await session.until(isTurnEnd);
});

test("a stop with force kills the token at once, and the open call gets a new item that can be claimed at once", async () => {
  const first = await active();
  const stopped = await stop(first.token, first.id, { force: true });
  expect([stopped.status, stopped.body.state]).toEqual([200, "stopped"]);
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);
  expect((await worker.claimed()).id).not.toBe(first.id);
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

test("a worker that is let go while a person thinks stays away until the answer: nobody is sent in its place", async () => {
  const { pool } = scripted.server.database;
  await pool.query("delete from work_items");
  const asking = await worker.waiting({ tools: [toolset(asks("bash"))] });
  onTestFinished(() => asking.session.close());
  const first = await active();
  await pool.query("update work_items set started_at = started_at - interval '3 minutes'");
  await pool.query("update sessions set last_processed_at = last_processed_at - interval '3 minutes'");
  expect(await stopQuietWork(pool)).toBe(1);

  await stop(first.token, first.id, { force: true });

  expect(await items()).toEqual([{ id: first.id, state: "stopped", held: false }]);
  await asking.session.send(...asking.uses.map((call) => confirmation(call, "allow")));
  expect((await worker.claimed()).id).not.toBe(first.id);
});

test("an operator who stops a worker that waits for a person's answer gets no other in its place", async () => {
  await scripted.server.database.pool.query("delete from work_items");
  const asking = await worker.waiting({ tools: [toolset(asks("bash"))] });
  onTestFinished(() => asking.session.close());
  const first = await active();

  await stop(API_KEY, first.id);

  expect(await items()).toEqual([{ id: first.id, state: "stopping", held: true }]);
});

test("a stop with force by somebody else closes what the worker may have begun: nobody runs it again (F03)", async () => {
  const first = await active();
  const stopped = await stop(API_KEY, first.id, { force: true });
  expect([stopped.status, stopped.body.state]).toEqual([200, "stopped"]);
  const closed = await session.until(({ type }) => type === "user.tool_result");
  expect(closed).toMatchObject({ tool_use_id: use.id, is_error: true });
  expect(textOf(closed)).toMatch(/stopped by force.*unknown/);
  await session.until(isTurnEnd);
  expect((await ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(401);
});

test("an operator who asks twice does not stop a worker that is still at it", async () => {
  const first = await active();
  await stop(API_KEY, first.id);
  const again = await stop(API_KEY, first.id);
  expect([again.status, again.body.state]).toEqual([200, "stopping"]);
  const answer = await ask(first.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  expect(answer.status).toBe(200);
});
