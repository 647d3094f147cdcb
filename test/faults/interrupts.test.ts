import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Event } from "../e2e/event-feed.ts";
import {
  calls,
  held,
  refusal,
  type ScriptedServer,
  says,
  startScriptedServer,
  toolUse,
  userTexts,
} from "../e2e/scripted-model.ts";
import { customTool, isIdle, isTurnEnd, isType, message, SessionDriver, textOf } from "../e2e/session-driver.ts";
import type { FakeReply } from "../fake-model/replies.ts";

let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const interrupt = { type: "user.interrupt" };
const never = new Promise<never>(() => {});

/** What a person reads in the list, in its order: messages by their text, answers, interrupts and ends. */
async function told(): Promise<string[]> {
  return (await session.list()).flatMap((event) => {
    if (event.type === "user.message") return `${textOf(event)}${event.processed_at === null ? " (queued)" : ""}`;
    if (event.type === "agent.message") return `> ${textOf(event)}`;
    if (event.type === "user.interrupt") return "interrupt";
    return event.type === "session.status_idle" ? `idle ${event.stop_reason?.type}` : [];
  });
}

/** Settles when the answer to the last message stands, and the session with it. */
async function untilAnswered(text: string): Promise<void> {
  await session.until((event) => event.type === "agent.message" && textOf(event) === text);
  await session.until(isTurnEnd);
}

async function expectQuiet(): Promise<void> {
  expect(await session.status()).toBe("idle");
  const { rows } = await scripted.server.database.pool.query(
    "select state from turns where session_id = $1 and state in ('running', 'parked', 'hibernated', 'backing_off')",
    [session.id],
  );
  expect(rows).toEqual([]);
}

test("a message and an interrupt in one request, while a turn runs: the turn ends, the message is answered", async () => {
  const provider = await scripted.script(held(never, "Once upon"), says("B it is."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"));
  await session.until(isType("span.model_request_start"));
  await session.send(message("B"), interrupt);
  await untilAnswered("B it is.");

  expect(await told()).toEqual(["A", "interrupt", "idle end_turn", "B", "> B it is.", "idle end_turn"]);
  expect(provider.count).toBe(2);
  expect(userTexts(provider, 1)).toEqual(["A", "B"]);
  await expectQuiet();
});

test("two messages and an interrupt in one request to an idle session: the first is interrupted, the second answered", async () => {
  const provider = await scripted.script(says("B it is."), says("never asked"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"), message("B"), interrupt);
  await untilAnswered("B it is.");

  expect(await told()).toEqual(["A", "interrupt", "idle end_turn", "B", "> B it is.", "idle end_turn"]);
  expect(provider.count).toBe(1);
  expect(userTexts(provider, 0)).toEqual(["A", "B"]);
  await expectQuiet();
});

test("three messages with an interrupt between them: each is taken up once, in order", async () => {
  const provider = await scripted.script(says("B it is."), says("C it is."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"), message("B"), interrupt, message("C"));
  await untilAnswered("C it is.");

  expect(await told()).toEqual([
    "A",
    "interrupt",
    "idle end_turn",
    "B",
    "> B it is.",
    "C",
    "> C it is.",
    "idle end_turn",
  ]);
  expect(provider.count).toBe(2);
  expect(userTexts(provider, 1)).toEqual(["A", "B", "C"]);
  await expectQuiet();
});

test("a message between two interrupts ends as fast as it began, and none is left behind an idle", async () => {
  const provider = await scripted.script(held(never, "Once upon"), says("never asked"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"));
  await session.until(isType("span.model_request_start"));
  await session.send(interrupt, message("B"), interrupt);
  await session.until(isTurnEnd);
  await session.until(isTurnEnd);

  expect(await told()).toEqual(["A", "interrupt", "idle end_turn", "B", "interrupt", "idle end_turn"]);
  expect(provider.count).toBe(1);
  await expectQuiet();
});

test("a message and an interrupt in one request to a session that waits for a result", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "a" })), says("B it is."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("A"));
  await session.untilAsked();
  await session.send(message("B"), interrupt);
  await untilAnswered("B it is.");

  expect(await told()).toEqual([
    "A",
    "idle requires_action",
    "interrupt",
    "idle end_turn",
    "B",
    "> B it is.",
    "idle end_turn",
  ]);
  expect(provider.count).toBe(2);
  await expectQuiet();
});

// A16

test("after an interrupt the list has the interrupt and its idle before the message that waited", async () => {
  await scripted.script(held(never, "Once upon"), says("B it is."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"));
  await session.until(isType("span.model_request_start"));
  await session.send(message("B"));
  expect(await told()).toEqual(["A", "B (queued)"]);
  await session.send(interrupt);
  await untilAnswered("B it is.");

  const events = await session.list();
  expect(await told()).toEqual(["A", "interrupt", "idle end_turn", "B", "> B it is.", "idle end_turn"]);
  const at = (matches: (event: Event) => boolean) => events.find(matches)?.processed_at ?? "";
  const idle = at(isTurnEnd);
  const second = at((event) => event.type === "user.message" && textOf(event) === "B");
  expect(idle < second).toBe(true);
  const stamps = events.map((event) => event.processed_at ?? "");
  expect(stamps).toEqual(stamps.toSorted());
});

test("a refusal is seen as an idle of its own before the message that waited gets its turn", async () => {
  const gate = Promise.withResolvers<void>();
  const refused = refusal({ type: "refusal", category: "cyber" });
  const late: FakeReply = { ...refused, steps: [{ until: gate.promise }, ...refused.steps] };
  await scripted.script(late, says("B it is."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"));
  await session.until(isType("span.model_request_start"));
  await session.send(message("B"));
  gate.resolve();
  const idle = await session.until(isIdle("refusal"));
  await untilAnswered("B it is.");

  expect(idle.stop_details).toEqual({ type: "refusal", category: "cyber" });
  expect(await told()).toEqual(["A", "idle refusal", "B", "> B it is.", "idle end_turn"]);
  await expectQuiet();
});
