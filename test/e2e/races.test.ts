import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Event } from "./event-feed.ts";
import { calls, says, toolUse } from "./scripted-model.ts";
import {
  ask,
  confirmation,
  customResult,
  customTool,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  toolset,
} from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

// Whatever commits first wins; what these tests demand holds in every order, so that none of them depends on luck.
let scripted: Target;
let sessions: SessionDriver[] = [];
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => {
  for (const session of sessions.splice(0)) session.close();
});
afterAll(() => scripted.close());

const interrupt = { type: "user.interrupt" };
const indexed = (count: number) => Array.from({ length: count }, (_, index) => index);

async function parked(
  count: number,
  tool: object,
  name: string,
): Promise<readonly (readonly [SessionDriver, Event])[]> {
  const replies = indexed(count).map((index) => calls(toolUse(`toolu_${index}`, name, { q: "x" })));
  await scripted.script(...replies, ...indexed(count).map(() => says("Done.")));
  sessions = await Promise.all(indexed(count).map(() => SessionDriver.open(scripted.server, { tools: [tool] })));
  return Promise.all(
    sessions.map(async (session) => {
      await session.send(message("go"));
      const [use] = await session.untilAsked();
      if (use === undefined) throw new Error("The idle named nothing.");
      return [session, use] as const;
    }),
  );
}

/** What no order of events may break. */
async function expectSettled(session: SessionDriver): Promise<Event[]> {
  const events = await session.list();
  expect(await session.status()).toBe("idle");
  // An interrupt that came after the end found nothing to end, and is written down behind it.
  const last = events.findLast(({ type }) => type !== "user.interrupt");
  expect(last).toMatchObject({ type: "session.status_idle", stop_reason: { type: "end_turn" } });
  expect(events.filter((event) => event.processed_at === null)).toEqual([]);
  const starts = events.filter(isType("span.model_request_start")).map(({ id }) => id);
  const ends = events.filter(isType("span.model_request_end")).map((event) => event.model_request_start_id);
  expect(ends.toSorted()).toEqual(starts.toSorted());
  const results = events.flatMap(
    (event) => event.custom_tool_use_id ?? (event.is_error === undefined ? [] : (event.tool_use_id ?? [])),
  );
  expect(new Set(results).size).toBe(results.length);
  return events;
}

test("an interrupt and the last result at the same time: one turn end, one result for the call", async () => {
  const all = await parked(10, customTool("lookup"), "lookup");
  await Promise.all(
    all.map(async ([session, use], index) => {
      const posts = [() => session.post(customResult(use, "found")), () => session.post(interrupt)];
      if (index % 2 === 1) posts.reverse();
      const answers = await Promise.all(posts.map((post) => post()));
      await session.until(isTurnEnd);
      expect(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 409)).toEqual([]);
    }),
  );
  for (const [session, use] of all) {
    const events = await expectSettled(session);
    expect(events.filter((event) => event.custom_tool_use_id === use.id)).toHaveLength(1);
  }
});

test("allow and deny of one call at the same time: one is taken, the other is a conflict", async () => {
  const all = await parked(10, toolset(ask("bash")), "bash");
  for (const [session, use] of all) {
    const answers = await Promise.all([
      session.post(confirmation(use, "allow")),
      session.post(confirmation(use, "deny")),
    ]);
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect((await session.list()).filter(isType("user.tool_confirmation"))).toHaveLength(1);
  }
});

test("a message that arrives while the turn ends is answered, never left behind the idle", async () => {
  await scripted.script(...indexed(40).map((index) => says(`answer ${index}`)));
  sessions = await Promise.all(indexed(10).map(() => SessionDriver.open(scripted.server)));
  await Promise.all(
    sessions.map(async (session, index) => {
      await session.send(message("one"));
      const moments = ["agent.message", "span.model_request_end", "session.thread_status_idle", "session.status_idle"];
      await session.until(isType(moments[index % moments.length] ?? ""));
      const [second] = await session.send(message("two"));
      await session.until((event) => event.id === second?.id && event.processed_at !== null);
      await session.until(isTurnEnd);
    }),
  );
  for (const session of sessions) {
    const events = await expectSettled(session);
    expect(events.filter(isType("agent.message"))).toHaveLength(2);
  }
});

test("an interrupt that arrives while the turn ends leaves one end and a session that works", async () => {
  await scripted.script(...indexed(60).map((index) => says(`answer ${index}`)));
  sessions = await Promise.all(indexed(10).map(() => SessionDriver.open(scripted.server)));
  await Promise.all(
    sessions.map(async (session, index) => {
      await session.send(message("one"));
      const moments = ["session.status_running", "span.model_request_start", "agent.message", "session.status_idle"];
      await session.until(isType(moments[index % moments.length] ?? ""));
      await session.send(interrupt);
      await session.send(message("two"));
      const again = (await session.list()).filter(isType("user.message"))[1];
      await session.until((event) => event.id === again?.id && event.processed_at !== null);
      await session.until(isTurnEnd);
    }),
  );
  for (const session of sessions) await expectSettled(session);
});

test("results of ten parallel calls posted at the same time resume the turn once", async () => {
  const uses = indexed(10).map((index) => toolUse(`toolu_${index}`, "lookup", { q: `${index}` }));
  const provider = await scripted.script(calls(...uses), says("All found."));
  const session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  sessions = [session];
  await session.send(message("go"));
  const asked = await session.untilAsked();
  const answers = await Promise.all(asked.map((use) => session.post(customResult(use, `found ${use.input?.["q"]}`))));
  await session.until(isTurnEnd);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  const events = await expectSettled(session);
  expect(events.filter(isType("user.custom_tool_result"))).toHaveLength(10);
  expect(events.filter(isType("session.status_running"))).toHaveLength(2);
  expect(provider.count).toBe(2);
});
