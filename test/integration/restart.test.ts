import { existsSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Event } from "../e2e/event-feed.ts";
import {
  cleanUp,
  makeDataDir,
  processesOf,
  type RealServer,
  startAndEnd,
  startRealServer,
} from "../e2e/real-server.ts";
import {
  ask,
  confirmation,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolset,
} from "../e2e/session-driver.ts";

// A start brings its own PostgreSQL and is done several times; a turn that was cut off waits for a lease to expire.
const PATIENCE = 120_000;
let dataDir: string;
beforeEach(async () => {
  dataDir = await makeDataDir();
}, PATIENCE);
afterEach(() => cleanUp(dataDir), PATIENCE);

const countTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

/** Every event once in the list, and the stream from its beginning is the same events under 1, 2, 3 … */
async function expectWholeLedger(session: SessionDriver): Promise<Event[]> {
  const events = await session.list();
  const replayed = session.feed.frames.filter(({ id }) => id !== null);
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  expect(replayed.map(({ id }) => Number(id))).toEqual(countTo(events.length));
  const ids = replayed.map(({ data }) => (JSON.parse(data ?? "") as Event).id);
  expect(ids.toSorted()).toEqual(events.map(({ id }) => id).toSorted());
  return events;
}

async function askedOn(server: RealServer): Promise<{ session: SessionDriver; use: Event }> {
  const session = await SessionDriver.open(server, { tools: [toolset(ask("bash"))] });
  await session.send(message("run `echo survived >> kept.txt; cat kept.txt`"));
  const [use] = await session.untilAsked();
  if (use === undefined) throw new Error("The idle named nothing.");
  return { session, use };
}

test("kill -9 while a turn waits for approval: after a restart the approval ends the turn", {
  timeout: PATIENCE,
}, async () => {
  const first = await startRealServer(dataDir);
  const { session, use } = await askedOn(first);
  session.close();
  await first.kill();

  const second = await startRealServer(dataDir);
  const resumed = await SessionDriver.resume(second, session.id);
  expect(await resumed.status()).toBe("idle");
  await resumed.send(confirmation(use, "allow"));
  const result = await resumed.until(isType("user.tool_result"));
  await resumed.until(isTurnEnd);
  expect(textOf(result)).toBe("survived");
  const events = await expectWholeLedger(resumed);
  expect(events.filter(isType("agent.tool_use"))).toHaveLength(1);
  expect(events.filter(isType("user.tool_result"))).toHaveLength(1);
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", stop_reason: { type: "end_turn" } });
  resumed.close();
  expect(await second.terminate()).toBe(0);
});

test("kill -9 right after the approval: the command runs once and the turn ends", { timeout: PATIENCE }, async () => {
  const first = await startRealServer(dataDir, { MANGO_WORKER: "off" });
  const { session, use } = await askedOn(first);
  await session.send(confirmation(use, "allow"));
  session.close();
  await first.kill();

  const second = await startRealServer(dataDir);
  const resumed = await SessionDriver.resume(second, session.id);
  const result = await resumed.until(isType("user.tool_result"));
  await resumed.until(isTurnEnd);
  expect(textOf(result)).toBe("survived");
  await expectWholeLedger(resumed);
  resumed.close();
  await second.terminate();
});

test("F48: kill -9 in the middle of an answer: after a restart the turn ends and nothing is listed twice", {
  timeout: PATIENCE,
}, async () => {
  const first = await startRealServer(dataDir);
  const session = await SessionDriver.open(first, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("hello"));
  await session.until(isType("event_delta"));
  await session.send(message("and hello again"));
  session.close();
  await first.kill();

  const second = await startRealServer(dataDir);
  const resumed = await SessionDriver.resume(second, session.id);
  const idle = await untilTurnEnd(resumed);
  const events = await expectWholeLedger(resumed);
  expect(idle.stop_reason).toEqual({ type: "end_turn" });
  expect(events.filter(isType("agent.message")).map((event) => textOf(event).split("\n")[0])).toEqual([
    "You said: hello",
    "You said: and hello again",
  ]);
  const ends = new Set(events.filter(isType("span.model_request_end")).map((event) => event.model_request_start_id));
  expect(events.filter(isType("span.model_request_start")).filter(({ id }) => !ends.has(id))).toEqual([]);
  expect(events.filter((event) => event.processed_at === null)).toEqual([]);
  resumed.close();
  await second.terminate();
});

/** Longer than the feed's own patience: a lease has to expire first. */
async function untilTurnEnd(session: SessionDriver): Promise<Event> {
  for (let attempt = 0; attempt < 4; attempt++) {
    const idle = await session.until(isTurnEnd).catch(() => undefined);
    if (idle !== undefined) return idle;
  }
  return session.until(isTurnEnd);
}

test("a second start on a data folder in use says so and ends; the first goes on", { timeout: PATIENCE }, async () => {
  const first = await startRealServer(dataDir);
  const second = await startAndEnd(dataDir);
  expect(second.code).not.toBe(0);
  expect(second.code).not.toBeNull();
  expect(second.output).toContain(dataDir);
  expect(second.output).toContain(first.url);
  expect(second.output).not.toMatch(/\n {4}at /);
  const session = await SessionDriver.open(first);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  session.close();
  expect(await first.terminate()).toBe(0);
});

test("SIGTERM ends everything, and the next start finds the session", { timeout: PATIENCE }, async () => {
  const first = await startRealServer(dataDir);
  const { session, use } = await askedOn(first);
  expect((await processesOf(dataDir)).length).toBeGreaterThan(0);
  const code = await first.terminate();
  session.close();
  expect(code).toBe(0);
  expect(await processesOf(dataDir)).toEqual([]);

  const second = await startRealServer(dataDir);
  const resumed = await SessionDriver.resume(second, session.id);
  await resumed.send(confirmation(use, "deny"));
  await resumed.until(isTurnEnd);
  resumed.close();
  await second.terminate();
  expect(existsSync(path.join(dataDir, "workspaces", session.id, "kept.txt"))).toBe(false);
});

test("after kill -9 the worker and PostgreSQL end by themselves, and a restart leaves nothing when it ends", {
  timeout: PATIENCE,
}, async () => {
  const first = await startRealServer(dataDir);
  await first.kill();
  await expect.poll(() => processesOf(dataDir), { timeout: PATIENCE / 2 }).toEqual([]);
  const second = await startRealServer(dataDir);
  expect(await second.terminate()).toBe(0);
  expect(await processesOf(dataDir)).toEqual([]);
});

test("a restart at once, while the worker of the killed server may still be there, is no worse", {
  timeout: PATIENCE,
}, async () => {
  const first = await startRealServer(dataDir);
  await first.kill();
  const second = await startRealServer(dataDir);
  const { session, use } = await askedOn(second);
  await session.send(confirmation(use, "allow"));
  await session.until(isTurnEnd);
  session.close();
  expect(await second.terminate()).toBe(0);
  await expect.poll(() => processesOf(dataDir), { timeout: PATIENCE / 2 }).toEqual([]);
});
