import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  calls,
  messagesOf,
  reply,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  startSilentProvider,
  textBlock,
  toolUse,
  userTexts,
} from "../e2e/scripted-model.ts";
import {
  customTool,
  isIdle,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolset,
} from "../e2e/session-driver.ts";
import { failure } from "../fake-model/replies.ts";

// Answers that a provider gave and would not take back, or that make no sense.
let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const usage = async () => {
  const response = await scripted.server.request(`/v1/sessions/${session.id}`);
  const { usage: counted } = (await response.json()) as { usage: { input_tokens: number; output_tokens: number } };
  return [counted.input_tokens, counted.output_tokens];
};

// A7

test.each([
  ["cut off", '{"command": "rm -rf '],
  ["no JSON", "rm -rf /"],
  ["an array", '["rm", "-rf"]'],
  ["a string", '"rm -rf /"'],
  ["null", "null"],
])("a call whose input is %s is nobody's: it is refused, shown, and the model may try again", async (_, input) => {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "bash", input), toolUse("toolu_2", "lookup", input)),
    says("My mistake."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset(), customTool("lookup")] });
  await session.send(message("go"));
  await session.until(isTurnEnd);

  const events = await session.list();
  expect(events.filter(({ type }) => type.endsWith("tool_use"))).toMatchObject([
    { type: "agent.tool_use", name: "bash", evaluated_permission: "deny" },
    { type: "agent.tool_use", name: "lookup", evaluated_permission: "deny" },
  ]);
  expect(events.filter(({ type }) => type.endsWith("tool_result"))).toMatchObject([
    {
      type: "agent.tool_result",
      is_error: true,
      content: [{ type: "text", text: "The input of bash is not a valid JSON object; the call was not run." }],
    },
    {
      type: "agent.tool_result",
      is_error: true,
      content: [{ type: "text", text: "The input of lookup is not a valid JSON object; the call was not run." }],
    },
  ]);
  expect(events.filter(isIdle("requires_action"))).toEqual([]);
  const sent = messagesOf(provider, 1);
  expect(sent[1]?.content).toMatchObject([
    { type: "tool_use", id: "toolu_1", input: { INVALID_JSON: input } },
    { type: "tool_use", id: "toolu_2", input: { INVALID_JSON: input } },
  ]);
  expect(sent[2]?.content).toMatchObject([
    { type: "tool_result", tool_use_id: "toolu_1", is_error: true },
    { type: "tool_result", tool_use_id: "toolu_2", is_error: true },
  ]);
});

test("a broken call does not keep its sound sibling from running", async () => {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "bash", '{"command": '), toolUse("toolu_2", "bash", { command: "ls" })),
    says("Good."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  const asked = await session.untilAsked();
  expect(asked).toMatchObject([{ name: "bash", input: { command: "ls" }, evaluated_permission: "allow" }]);
  await session.send({
    type: "user.tool_result",
    tool_use_id: asked[0]?.id,
    content: [{ type: "text", text: "README.md" }],
  });
  await session.until(isTurnEnd);
  expect(messagesOf(provider, 1)[2]?.content.map((block) => [block.tool_use_id, block.is_error ?? false])).toEqual([
    ["toolu_1", true],
    ["toolu_2", false],
  ]);
});

// A8

test.each(["", " ", "\n", " \t\r\n", "\u00a0"])(
  "a blank text block %j beside a call is not sent back",
  async (blank) => {
    const provider = await scripted.script(
      reply("tool_use", textBlock(blank), toolUse("toolu_1", "lookup", { q: "x" })),
      reply("end_turn", textBlock(blank)),
      says("Still here."),
    );
    session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
    await session.send(message("go"));
    const [use] = await session.untilAsked();
    await session.send({ type: "user.custom_tool_result", custom_tool_use_id: use?.id });
    await session.until(isTurnEnd);
    await session.send(message("and?"));
    await session.until((event) => event.type === "agent.message" && textOf(event) === "Still here.");
    await session.until(isTurnEnd);

    expect(messagesOf(provider, 2).map(({ role, content }) => [role, content.map((block) => block.type)])).toEqual([
      ["user", ["text"]],
      ["assistant", ["tool_use"]],
      ["user", ["tool_result", "text"]],
    ]);
  },
);

test.each([
  ["nothing", {}],
  ["no blocks", { content: [] }],
  ["blank text", { content: [{ type: "text", text: " \n" }] }],
])("a failed call that says %s is told to the model as an error without output", async (_, content) => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "x" })), says("I see."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("go"));
  const [use] = await session.untilAsked();
  await session.send({ type: "user.custom_tool_result", custom_tool_use_id: use?.id, is_error: true, ...content });
  await session.until(isTurnEnd);

  const [result] = messagesOf(provider, 1)[2]?.content ?? [];
  expect([result?.is_error, resultText(result)]).toEqual([true, "(no output)"]);
});

const IMAGE = {
  type: "image",
  source: { type: "base64", media_type: "image/png", data: Buffer.from("no image").toString("base64") },
};
const withImage = { type: "user.message", content: [{ type: "text", text: "what is this?" }, IMAGE] };

test("an image that the provider refused is left out from then on, and the session goes on", async () => {
  const provider = await scripted.script(
    failure(400, "invalid_request_error", "messages.0.content.1: Could not process image"),
    says("A pity."),
  );
  session = await SessionDriver.open(scripted.server);
  await session.send(withImage);
  await session.until(isIdle("retries_exhausted"));
  await session.send(message("never mind"));
  await session.until(isTurnEnd);

  expect(provider.requests[0]?.body).toContain('"type":"image"');
  expect(provider.requests[1]?.body).not.toContain('"type":"image"');
  expect(userTexts(provider, 1)).toEqual([
    "what is this?",
    "[A file of this message was refused by the model provider and is left out.]",
    "never mind",
  ]);
});

test("an image that the provider took stays in the conversation, whatever it refuses later", async () => {
  const provider = await scripted.script(
    says("A cat."),
    failure(400, "invalid_request_error", "messages.2: no"),
    says("As I said."),
  );
  session = await SessionDriver.open(scripted.server);
  await session.send(withImage);
  await session.until(isTurnEnd);
  await session.send(message("sure?"));
  await session.until(isIdle("retries_exhausted"));
  await session.send(message("really?"));
  await session.until(isTurnEnd);
  expect(provider.requests[2]?.body).toContain('"type":"image"');
});

// A11

test("two calls with one id are asked for again; the answer that follows is taken, and all are paid for", async () => {
  const twins = calls(toolUse("call_0", "lookup", { q: "a" }), toolUse("call_0", "lookup", { q: "b" }));
  const provider = await scripted.script(twins, says("One will do."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("go"));
  const error = await session.until(isType("session.error"));
  await session.until(isTurnEnd);

  expect(error.error).toMatchObject({ type: "model_request_failed_error", retry_status: { type: "retrying" } });
  expect((await session.list()).filter(({ type }) => type.endsWith("tool_use"))).toEqual([]);
  expect(provider.count).toBe(2);
  expect(await usage()).toEqual([22, 14]);
});

// A12

test("what an interrupted answer has cost until then reaches the session", async () => {
  const provider = await startSilentProvider();
  scripted.pointTo(provider.url);
  session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("tell a story"));
  await session.until(isType("event_delta"));
  await session.send({ type: "user.interrupt" });
  await session.until(isTurnEnd);
  await provider.aborted;
  provider.close();
  await expect.poll(usage, { timeout: 10_000 }).toEqual([11, 0]);
  const events = await session.list();
  expect(events.at(-1)?.type).toBe("session.status_idle");
  expect(events.filter(isType("span.model_request_end"))).toHaveLength(1);
});
