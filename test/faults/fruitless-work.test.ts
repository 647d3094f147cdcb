/** Workers that take a session up and achieve nothing: it is tried again, later and later, and then said (F44, F46). */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { TurnOutcome } from "../../shared/product.ts";
import type { Event } from "../e2e/event-feed.ts";
import { held, type ScriptedServer, says, startScriptedServer } from "../e2e/scripted-model.ts";
import { isIdle, isTurnEnd, isType, message, type SessionDriver, textOf, toolResult } from "../e2e/session-driver.ts";
import { API_KEY } from "../server.ts";
import { HandWorker, NO_HEARTBEAT } from "./hand-worker.ts";

let scripted: ScriptedServer;
let worker: HandWorker;
let session: SessionDriver;
let use: Event;
/** The ends of turns that the product told. */
const told: TurnOutcome[] = [];
beforeAll(async () => {
  scripted = await startScriptedServer();
  worker = new HandWorker(scripted);
  Object.assign(scripted.server.product, { turnEnded: (outcome: TurnOutcome) => told.push(outcome) });
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
  const waiting = await worker.waiting();
  ({ session } = waiting);
  use = waiting.uses[0] as Event;
  told.splice(0);
});
afterEach(() => session.close());

const states = async () => (await worker.items()).map(({ state }) => state);
const fail = (key: string, id: string, body: object = { message: "The image could not be pulled." }) =>
  worker.ask(key, worker.work(`${id}/fail`), body);

/** Everything that the session says at its end, by type. */
async function exhausted(): Promise<Event> {
  await session.until(isIdle("retries_exhausted"));
  const events = await session.list();
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle" });
  expect(events.filter(isType("user.tool_result"))).toMatchObject([{ tool_use_id: use.id, is_error: true }]);
  const [error] = events.filter(isType("session.error"));
  if (error === undefined) throw new Error("There is no session.error.");
  return error;
}

test("F44: a launcher stops its claim, a first heartbeat comes from elsewhere: the session is queued again", async () => {
  const claim = await worker.acknowledged();
  expect((await worker.handBack(claim.id)).body.state).toBe("queued");
  expect((await worker.ask(claim.token, worker.work(`${claim.id}/${NO_HEARTBEAT}`), {})).status).toBe(401);
  const second = await worker.active();
  expect(second.id).toBe(claim.id);
});

test("F44: a launcher that does so each time is waited out, and after the fifth the session says so", async () => {
  for (const [attempt, claimable] of [
    [1, true],
    [2, false],
    [3, false],
    [4, false],
  ] as const) {
    const claim = await worker.acknowledged();
    await worker.handBack(claim.id);
    expect([attempt, await states()]).toEqual([attempt, ["queued"]]);
    if (!claimable) expect([attempt, await worker.poll()]).toEqual([attempt, null]);
    await worker.endBackoff();
  }
  const fifth = await worker.acknowledged();
  expect((await worker.handBack(fifth.id)).body.state).toBe("stopped");

  const error = await exhausted();

  expect(error).toMatchObject({ error: { type: "unknown_error", retry_status: { type: "exhausted" } } });
  expect((error as unknown as { error: { message: string } }).error.message).toMatch(/^Five workers in a row/);
  expect(told).toEqual(["failed"]);
  expect(await states()).toEqual(["stopped"]);
  expect(await worker.poll()).toBeNull();
  // The session is as usable as ever.
  await scripted.script(says("Still here."));
  await session.send(message("again"));
  await session.until(isTurnEnd);
  expect(await states()).toEqual(["stopped", "queued"]);
});

test("forced stops and graceful ones by workers that did nothing count alike, and the successors wait too", async () => {
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    const claim = await worker.active();
    await worker.stop(claim.token, claim.id, attempt % 2 === 0 ? { force: true } : {});
    if (attempt % 2 === 1) await worker.stop(claim.token, claim.id);
    if (attempt > 1) expect([attempt, await worker.poll()]).toEqual([attempt, null]);
    await worker.endBackoff();
  }
  const fifth = await worker.active();
  await worker.stop(fifth.token, fifth.id);
  await worker.stop(fifth.token, fifth.id);
  await exhausted();
  expect(new Set(await states())).toEqual(new Set(["stopped"]));
});

test("an answered call begins the count anew", async () => {
  for (let attempt = 1; attempt <= 4; attempt += 1) {
    await worker.handBack((await worker.acknowledged()).id);
    await worker.endBackoff();
  }
  const claim = await worker.active();
  await worker.ask(claim.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  await session.until(isTurnEnd);
  await worker.stop(claim.token, claim.id, { force: true });
  const { rows } = await scripted.server.database.pool.query(
    "select fruitless_activations from sessions where id = $1",
    [session.id],
  );
  expect(rows).toEqual([{ fruitless_activations: 0 }]);
});

test("a worker that had nothing to do is no failure: text turns may come and go", async () => {
  const claim = await worker.active();
  await worker.ask(claim.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  await session.until(isTurnEnd);
  await worker.stop(claim.token, claim.id, { force: true });
  for (let turn = 1; turn <= 6; turn += 1) {
    await scripted.script(says("Hello."));
    await session.send(message("hello"));
    await session.until(isTurnEnd);
    const idle = await worker.active();
    await worker.stop(idle.token, idle.id, { force: true });
  }
  expect((await session.list()).filter(isType("session.error"))).toEqual([]);
});

test("a failed preparation ends the turn with an error instead of leaving it waiting (F46)", async () => {
  const claim = await worker.acknowledged();
  const failed = await fail(claim.token, claim.id);
  expect([failed.status, failed.body.state]).toEqual([200, "stopped"]);
  expect(await exhausted()).toMatchObject({
    error: { message: "The worker failed: The image could not be pulled.", retry_status: { type: "exhausted" } },
  });
  expect(await session.status()).toBe("idle");
  expect(told).toEqual(["failed"]);
  // Its token is dead with it; the launcher's key hears that it is over.
  expect((await fail(claim.token, claim.id)).status).toBe(401);
  expect((await fail(scripted.server.environmentKey, claim.id)).status).toBe(409);
});

test("a preparation that fails while the model is asked ends the turn too, and the late answer leaves no trace", async () => {
  const claim = await worker.active();
  await worker.ask(claim.token, `/v1/sessions/${session.id}/events`, { events: [toolResult(use, "ls")] });
  await session.until(isTurnEnd);
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  await scripted.script(held(answered, "Too late."));
  await session.send(message("more"));
  await session.until(isType("span.model_request_start"));
  expect((await fail(claim.token, claim.id)).status).toBe(200);
  await session.until(isIdle("retries_exhausted"));
  answer();
  await scripted.script(says("Fresh."));
  await session.send(message("again"));
  await session.until(isTurnEnd);
  const said = (await session.list()).filter(isType("agent.message")).map(textOf);
  expect(said).toEqual(["Done.", "Fresh."]);
});

test("a worker fails its own item only, with a reason, and an operator has the force to stop instead", async () => {
  const claim = await worker.acknowledged();
  const before = await session.list();
  expect((await fail(API_KEY, claim.id)).status).toBe(403);
  expect((await fail(claim.token, claim.id, {})).status).toBe(400);
  expect((await fail(claim.token, claim.id, { message: "x".repeat(1001) })).status).toBe(400);
  expect(await session.list()).toEqual(before);
  expect(await states()).toEqual(["starting"]);
});

test("a wait for a person is no failure of the worker's, however often it comes and goes", async () => {
  const { rows } = await scripted.server.database.pool.query<{ event_id: string; step_id: string }>(
    "select event_id, step_id from pending_actions where session_id = $1",
    [session.id],
  );
  // As if the call were under always_ask: the same barrier with a confirmation before the result.
  await scripted.server.database.pool.query(
    `insert into pending_actions (session_id, event_id, need, workspace_id, turn_id, step_id, created_at)
     select session_id, event_id, 'confirmation', workspace_id, turn_id, step_id, created_at from pending_actions
      where session_id = $1 and event_id = $2`,
    [session.id, rows[0]?.event_id],
  );
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    await worker.handBack((await worker.acknowledged()).id);
  }
  expect((await session.list()).filter(isType("session.error"))).toEqual([]);
  expect(textOf((await session.list()).find(isType("user.message")))).toBe("go");
});
