import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  calls,
  messagesOf,
  type ProviderMessage,
  refusal,
  reply,
  resultsOf,
  resultText,
  says,
  textBlock,
  toolUse,
} from "./scripted-model.ts";
import { isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

/** The rule of the Messages format: each call is answered at the head of the very next message. */
function unansweredCalls(messages: readonly ProviderMessage[]): string[] {
  return messages.flatMap(({ content }, index) => {
    const answered = new Set(messages[index + 1]?.content.map((block) => block.tool_use_id));
    return content.flatMap(({ type, id = "" }) => (type === "tool_use" && !answered.has(id) ? [id] : []));
  });
}

test("refusal: idle says refusal with the provider's details, and the session goes on", async () => {
  const details = { type: "refusal", category: "cyber", explanation: "That would harm somebody." };
  await scripted.script(refusal(details), says("Something else."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("do harm"));
  const idle = await session.until(isType("session.status_idle"));
  expect(idle.stop_reason).toEqual({ type: "refusal" });
  expect(idle.stop_details).toEqual(details);
  const events = await session.list();
  expect(events.find(isType("session.thread_status_idle"))).toMatchObject({
    stop_reason: { type: "refusal" },
    stop_details: details,
  });
  await session.send(message("then something else"));
  expect(textOf(await session.until(isType("agent.message")))).toBe("Something else.");
  await session.until(isTurnEnd);
});

test("an ordinary end has no stop details", async () => {
  await scripted.script(says("Fine."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  expect(await session.until(isType("session.status_idle"))).toMatchObject({
    stop_reason: { type: "end_turn" },
    stop_details: null,
  });
});

test.each(["max_tokens", "stop_sequence", "a_reason_from_the_future"])(
  "%s ends the turn with what was said",
  async (stopReason) => {
    const provider = await scripted.script(reply(stopReason, textBlock("As far as it")), says("goes."));
    session = await SessionDriver.open(scripted.server);
    await session.send(message("say it"));
    const said = await session.until(isType("agent.message"));
    await session.until(isTurnEnd);
    expect(textOf(said)).toBe("As far as it");
    expect(provider.count).toBe(1);
    await session.send(message("go on"));
    await session.until(isTurnEnd);
    expect(messagesOf(provider, 1).map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  },
);

test("a call cut off by max_tokens is not run, and the next request is still well-formed", async () => {
  const cut = toolUse("toolu_cut", "bash", '{"command":"rm -rf ');
  const provider = await scripted.script(reply("max_tokens", textBlock("I will"), cut), says("Sorry."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("tidy up"));
  await session.until(isTurnEnd);
  const events = await session.list();
  const runnable = events.filter((event) => event.type === "agent.tool_use" && event.evaluated_permission !== "deny");
  const answered = new Set(events.map((event) => event.tool_use_id));
  expect(runnable.filter((event) => !answered.has(event.id))).toEqual([]);
  expect(events.filter(isType("session.status_idle"))).toHaveLength(1);

  await session.send(message("well?"));
  await session.until(isTurnEnd);
  expect(unansweredCalls(messagesOf(provider, 1))).toEqual([]);
});

test("pause_turn goes on with unchanged blocks and without a word in between", async () => {
  const start =
    '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","z":1.0,"input":{"query":"a","n":12345678901234567890}}';
  const provider = await scripted.script(reply("pause_turn", textBlock("Searching"), { start }), says("Found it."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("search"));
  await session.until(isTurnEnd);
  expect(provider.count).toBe(2);
  expect(messagesOf(provider, 1).map(({ role }) => role)).toEqual(["user", "assistant"]);
  expect(provider.requests[1]?.body).toContain(`[{"type":"text","text":"Searching"},${start}]`);
  const events = await session.list();
  expect(events.filter(isType("agent.message")).map(textOf)).toEqual(["Searching", "Found it."]);
  expect(events.filter(isType("session.status_idle"))).toHaveLength(1);
});

const broken = [
  ["is no JSON", '{"command": oops'],
  ["ends early", '{"command":"echo hi"'],
  ["is no object", '["echo hi"]'],
] as const;
test.each(broken)(
  "a call whose input %s is not run; the model gets an error result and goes on",
  async (_case, input) => {
    const provider = await scripted.script(calls(toolUse("toolu_bad", "bash", input)), says("I will be careful."));
    session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
    await session.send(message("go"));
    const answer = await session.until(isType("agent.message"));
    await session.until(isTurnEnd);
    expect(textOf(answer)).toBe("I will be careful.");
    const events = await session.list();
    expect(events.filter((event) => event.stop_reason?.type === "requires_action")).toEqual([]);
    expect(resultsOf(provider, 1)).toMatchObject([{ tool_use_id: "toolu_bad", is_error: true }]);
    expect(resultText(resultsOf(provider, 1)[0])).not.toBe("");
    const use = events.find(isType("agent.tool_use"));
    const result = events.find(isType("agent.tool_result"));
    expect(result).toMatchObject({ tool_use_id: use?.id, is_error: true });
  },
);

test("a broken call does not hold up its sibling", async () => {
  const provider = await scripted.script(
    calls(toolUse("toolu_bad", "bash", "{"), toolUse("toolu_good", "bash", { command: "echo hi" })),
    says("Half."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  const [use] = await session.untilAsked();
  expect(use?.input).toEqual({ command: "echo hi" });
  await session.send({ type: "user.tool_result", tool_use_id: use?.id, content: [{ type: "text", text: "hi" }] });
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map((block) => [block.tool_use_id, block.is_error ?? false])).toEqual([
    ["toolu_bad", true],
    ["toolu_good", false],
  ]);
});

test("an answer without any block ends the turn, and the next message works", async () => {
  const provider = await scripted.script(reply("end_turn"), says("Now with words."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("say nothing"));
  await session.until(isTurnEnd);
  await session.send(message("say something"));
  await session.until(isTurnEnd);
  expect(messagesOf(provider, 1).filter(({ content }) => content.length === 0)).toEqual([]);
});
