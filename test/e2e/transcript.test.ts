import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { calls, reply, says, textBlock, toolUse } from "./scripted-model.ts";
import { customResult, customTool, isTurnEnd, isType, message, SessionDriver } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const delta = (value: object) => JSON.stringify(value);
/** Odd on purpose: key order, spaces, escapes, big and exact numbers that JavaScript would write otherwise. */
const INPUT = '{"b": 1, "a":12345678901234567890,"10":"ten","2":"two", "e":"\\u00fc\\/","f":1.0,"g":1e2,"b":2}';

test("F31: a tool input goes back to the provider as the very text that it wrote", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "lookup", INPUT)), says("Done."), says("Again."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  const use = await session.until(isType("agent.custom_tool_use"));
  await session.send(customResult(use, "found"));
  await session.until(isTurnEnd);
  await session.send(message("once more"));
  await session.until(isTurnEnd);
  for (const n of [1, 2]) expect(provider.requests[n]?.body).toContain(`"input":${INPUT}`);
  const listed = await scripted.server.request(`/v1/sessions/${session.id}/events?types[]=agent.custom_tool_use`);
  expect(await listed.text()).toContain("12345678901234567890");
  const frame = session.feed.frames.find(({ name }) => name === "agent.custom_tool_use");
  expect(frame?.data).toContain("12345678901234567890");
});

test("F10, F11: thinking, its signature and redacted thinking go back unchanged and in order", async () => {
  const thought = 'Let me think: ünïcödé </script> \u2028 \\u0041 "quotes" 😀';
  const signature = "EqQBCgIYAhIM/+==\\u002f";
  const redacted = '{"type":"redacted_thinking","data":"Em+/==", "vendor":{"z":1,"a":1.50}}';
  const provider = await scripted.script(
    reply(
      "tool_use",
      {
        start: '{"type":"thinking","thinking":"","signature":""}',
        deltas: [
          delta({ type: "thinking_delta", thinking: thought.slice(0, 9) }),
          delta({ type: "thinking_delta", thinking: thought.slice(9) }),
          delta({ type: "signature_delta", signature }),
        ],
      },
      { start: redacted },
      textBlock("Looking it up."),
      toolUse("toolu_1", "lookup", { q: "x" }),
    ),
    says("Done."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  await session.send(customResult(await session.until(isType("agent.custom_tool_use")), "found"));
  await session.until(isTurnEnd);
  const body = provider.requests[1]?.body ?? "";
  const { messages } = JSON.parse(body) as { messages: { content: { type: string }[] }[] };
  expect(messages[1]?.content.map(({ type }) => type)).toEqual(["thinking", "redacted_thinking", "text", "tool_use"]);
  expect(messages[1]?.content[0]).toEqual({ type: "thinking", thinking: thought, signature });
  expect(body).toContain(redacted);
});

test("blocks and fields that nobody knows yet go back unchanged", async () => {
  const odd = '{"type":"hologram","z":1.0,"a":12345678901234567890,"10":"x","2":{"deep":[1e2, null]}}';
  const text = '{"type":"text","text":"","vendor_mark":{"z":1,"a":0.10}}';
  const provider = await scripted.script(
    reply("end_turn", { start: odd }, { start: text, deltas: [delta({ type: "text_delta", text: "Shown." })] }),
    says("Again."),
  );
  session = await SessionDriver.open(scripted.server);
  await session.send(message("show it"));
  const shown = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  await session.send(message("once more"));
  await session.until(isTurnEnd);
  expect(shown.content).toEqual([{ type: "text", text: "Shown." }]);
  expect(provider.requests[1]?.body).toContain(odd);
  expect(provider.requests[1]?.body).toContain('"vendor_mark":{"z":1,"a":0.10}');
});

test("a text with escapes and a split surrogate pair is the same in the next request", async () => {
  const provider = await scripted.script(
    reply("end_turn", {
      start: '{"type":"text","text":""}',
      deltas: [
        '{"type":"text_delta","text":"NUL:\\u0000 half:\\ud83d"}',
        '{"type":"text_delta","text":"\\ude00 lit:\\\\u0000"}',
      ],
    }),
    says("Again."),
  );
  session = await SessionDriver.open(scripted.server);
  await session.send(message("say it"));
  const said = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  await session.send(message("once more"));
  await session.until(isTurnEnd);
  const text = "NUL:\u0000 half:😀 lit:\\u0000";
  expect(said.content).toEqual([{ type: "text", text }]);
  const { messages } = JSON.parse(provider.requests[1]?.body ?? "") as { messages: { content: { text: string }[] }[] };
  expect(messages[1]?.content[0]?.text).toBe(text);
});

test("the request before an answer is a prefix of the request after it", async () => {
  const provider = await scripted.script(says("one"), says("two"), says("three"));
  session = await SessionDriver.open(scripted.server);
  for (const text of ["a", "b", "c"]) {
    await session.send(message(text));
    await session.until(isTurnEnd);
  }
  const messages = (n: number) => /"messages":\[(.*)\]/s.exec(provider.requests[n]?.body ?? "")?.[1] ?? "(none)";
  const shared = (n: number) => messages(n).slice(0, messages(n).lastIndexOf('"content"'));
  expect(messages(1).startsWith(shared(0))).toBe(true);
  expect(messages(2).startsWith(shared(1))).toBe(true);
});

test("an answer of the model never appears in another session's request", async () => {
  const provider = await scripted.script(says("The password is swordfish."), says("Hello."));
  const other = await SessionDriver.open(scripted.server);
  await other.send(message("tell me"));
  await other.until(isTurnEnd);
  other.close();
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  expect(provider.requests[1]?.body).not.toContain("swordfish");
});
