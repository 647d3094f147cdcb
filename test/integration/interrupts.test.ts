import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  calls,
  held,
  messagesOf,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  startSilentProvider,
  toolUse,
  userTexts,
} from "../e2e/scripted-model.ts";
import {
  ask,
  confirmation,
  customResult,
  customTool,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolResult,
  toolset,
} from "../e2e/session-driver.ts";

let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const interrupt = { type: "user.interrupt" };
const never = new Promise<never>(() => {});
const transcriptOf = async () =>
  (
    await scripted.server.database.pool.query(
      "select * from transcript_entries where session_id = $1 order by created_at, turn_id, ordinal",
      [session.id],
    )
  ).rows;

test("an interrupt during a streaming answer hangs up on the provider and ends in one idle end_turn", async () => {
  const provider = await startSilentProvider();
  scripted.pointTo(provider.url);
  session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("tell a story"));
  await session.until(isType("event_delta"));
  const [event] = await session.send(interrupt);
  await session.until(isTurnEnd);
  await provider.aborted;
  provider.close();
  const events = await session.list();
  expect(events.filter(isType("session.status_idle"))).toMatchObject([{ stop_reason: { type: "end_turn" } }]);
  expect(events.at(-1)?.type).toBe("session.status_idle");
  expect(events.filter(isType("span.model_request_end"))).toMatchObject([
    { is_error: true, model_request_start_id: events.find(isType("span.model_request_start"))?.id },
  ]);
  expect(events.find(({ id }) => id === event?.id)?.processed_at).not.toBeNull();
  expect(await session.status()).toBe("idle");
});

test("after an interrupt the next message is answered, with the interrupted one before it", async () => {
  const provider = await scripted.script(held(never, "Once upon a time"), says("As you wish."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("tell a story"));
  await session.until(isType("span.model_request_start"));
  await session.send(interrupt);
  await session.until(isTurnEnd);
  await session.send(message("something shorter"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(textOf(answer)).toBe("As you wish.");
  expect(userTexts(provider, 1)).toEqual(["tell a story", "something shorter"]);
});

test("an interrupt of a parked turn closes the worker's open call with an error result of the server's own", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "bash", { command: "sleep 9" })), says("Next."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  const [use] = await session.untilAsked();
  if (!use) throw new Error("The idle named nothing.");
  await session.send(interrupt);
  const closing = await session.until(isType("user.tool_result"));
  await session.until(isTurnEnd);
  expect(closing).toMatchObject({ tool_use_id: use.id, is_error: true });
  expect(provider.count).toBe(1);
  expect((await session.list()).filter(isTurnEnd)).toHaveLength(1);
  const late = await session.post(toolResult(use, "slept"));
  expect(late.status).toBe(409);
  expect(late.headers.get("x-should-retry")).toBe("false");

  await session.send(message("next"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1)).toMatchObject([{ tool_use_id: "toolu_1", is_error: true }]);
});

test("an interrupt closes a call that waits for approval; nobody can approve it any more", async () => {
  await scripted.script(calls(toolUse("toolu_1", "bash", { command: "rm x" })));
  session = await SessionDriver.open(scripted.server, { tools: [toolset(ask("bash"))] });
  await session.send(message("go"));
  const [use] = await session.untilAsked();
  if (!use) throw new Error("The idle named nothing.");
  await session.send(interrupt);
  await session.until(isTurnEnd);
  const closed = (await session.list()).filter(({ tool_use_id, is_error }) => tool_use_id === use.id && is_error);
  expect(closed).toHaveLength(1);
  const late = await session.post(confirmation(use, "allow"));
  expect(late.status).toBe(409);
});

test("F01: of three calls one was answered; the next request has three results first, two of them made when it is built", async () => {
  const three = ["toolu_1", "toolu_2", "toolu_3"].map((id) => toolUse(id, "lookup", { q: id }));
  const provider = await scripted.script(calls(...three), says("Onwards."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look up three"));
  const uses = await session.untilAsked();
  const second = uses.find((use) => use.input?.["q"] === "toolu_2");
  if (!second) throw new Error("The idle does not name the second call.");
  await session.send(customResult(second, "found"));
  await session.send(interrupt);
  await session.until(isTurnEnd);
  const stored = await transcriptOf();
  const closing = (await session.list()).filter((event) => event.type === "user.custom_tool_result" && event.is_error);
  expect(closing).toHaveLength(2);

  await session.send(message("never mind"));
  await session.until(isTurnEnd);
  const messages = messagesOf(provider, 1);
  expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  const last = messages.at(-1)?.content ?? [];
  expect(last.map((block) => [block.type, block.tool_use_id ?? block.text, block.is_error ?? false])).toEqual([
    ["tool_result", "toolu_1", true],
    ["tool_result", "toolu_2", false],
    ["tool_result", "toolu_3", true],
    ["text", "never mind", false],
  ]);
  expect(resultText(last[0])).toMatch(/interrupted/i);
  expect(resultText(last[1])).toBe("found");
  expect((await transcriptOf()).slice(0, stored.length)).toEqual(stored);
});

test("an interrupt of an idle session is taken note of and changes nothing", async () => {
  const provider = await scripted.script(says("Hello."), says("Still here."));
  session = await SessionDriver.open(scripted.server);
  await session.send(interrupt);
  expect(await session.status()).toBe("idle");
  await session.send(message("hello"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  const [second] = await session.send(interrupt);
  expect(second?.processed_at).not.toBeNull();
  expect(textOf(answer)).toBe("Hello.");
  expect(provider.count).toBe(1);
  await session.send(message("and now?"));
  expect(textOf(await session.until(isType("agent.message")))).toBe("Still here.");
  expect((await session.list()).filter((event) => event.processed_at === null)).toEqual([]);
});

test("an interrupt with a message in one request ends the turn and starts on the message", async () => {
  const provider = await scripted.script(held(never, "Once upon a time"), says("Short."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("tell a story"));
  await session.until(isType("span.model_request_start"));
  await session.send(interrupt, message("shorter please"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(textOf(answer)).toBe("Short.");
  expect(userTexts(provider, 1)).toEqual(["tell a story", "shorter please"]);
  const events = await session.list();
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", stop_reason: { type: "end_turn" } });
  expect(events.filter((event) => event.processed_at === null)).toEqual([]);
});

test("an interrupt with a message to an idle session: the message is answered", async () => {
  const provider = await scripted.script(says("Yes?"));
  session = await SessionDriver.open(scripted.server);
  await session.send(interrupt, message("hello"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(textOf(answer)).toBe("Yes?");
  expect(provider.count).toBe(1);
});

test("a message that was queued before the interrupt is not lost", async () => {
  const provider = await scripted.script(held(never, "Once upon a time"), says("To the second."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("one"));
  await session.until(isType("span.model_request_start"));
  await session.send(message("two"));
  await session.send(interrupt);
  const answer = await session.until(isType("agent.message"));
  expect(textOf(answer)).toBe("To the second.");
  expect(userTexts(provider, 1)).toEqual(["one", "two"]);
});

test("ten interrupts at once end one turn once", async () => {
  await scripted.script(held(never, "Once upon a time"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("tell a story"));
  await session.until(isType("span.model_request_start"));
  const answers = await Promise.all(Array.from({ length: 10 }, () => session.post(interrupt)));
  await session.until(isTurnEnd);
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 200));
  const events = await session.list();
  expect(events.filter((event) => event.type === "user.interrupt" && event.processed_at === null)).toEqual([]);
  expect(events.filter(isType("span.model_request_end"))).toHaveLength(1);
});
