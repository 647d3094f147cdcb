import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { calls, messagesOf, resultsOf, resultText, says, toolUse } from "./scripted-model.ts";
import {
  confirmation,
  customResult,
  customTool,
  isIdle,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  toolResult,
  toolset,
} from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

async function customCalls(count: number) {
  const uses = Array.from({ length: count }, (_, index) => toolUse(`toolu_${index}`, "lookup", { q: `q${index}` }));
  const provider = await scripted.script(calls(...uses), says("Found."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  return { provider, uses: await session.untilAsked() };
}

test("a custom tool waits for the application, then the turn ends", async () => {
  const { provider, uses } = await customCalls(1);
  const [use] = uses;
  if (!use) throw new Error("The idle named nothing.");
  expect(use).toMatchObject({ type: "agent.custom_tool_use", name: "lookup", input: { q: "q0" } });
  expect(use).not.toHaveProperty("evaluated_permission");
  const [stored] = await session.send(customResult(use, "42"));
  expect(stored).toMatchObject({ type: "user.custom_tool_result", custom_tool_use_id: use.id });
  expect(stored?.processed_at).not.toBeNull();
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map(resultText)).toEqual(["42"]);
});

test("posting the same custom result again gives the stored event; another one is a conflict", async () => {
  const { provider, uses } = await customCalls(2);
  const [use, other] = uses;
  if (!use || !other) throw new Error("The idle named too few calls.");
  const first = await session.post(customResult(use, "42"));
  const sameWhileParked = await session.post(customResult(use, "42"));
  const differentWhileParked = await session.post(customResult(use, "43"));
  await session.send(customResult(other, "7"));
  await session.until(isTurnEnd);
  const sameAfterwards = await session.post(customResult(use, "42"));
  const differentAfterwards = await session.post(customResult(use, "43"));
  for (const same of [sameWhileParked, sameAfterwards]) {
    expect(same.status).toBe(200);
    expect(same.data).toEqual(first.data);
  }
  for (const different of [differentWhileParked, differentAfterwards]) {
    expect(different.status).toBe(409);
    expect(different.error?.type).toBe("conflict_error");
    expect(different.headers.get("x-should-retry")).toBe("false");
  }
  expect((await session.list()).filter(isType("user.custom_tool_result"))).toHaveLength(2);
  expect(resultsOf(provider, 1).map(resultText)).toEqual(["42", "7"]);
});

test("a custom result may come as soon as the call is seen, and once answered the idle does not name it", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_0", "lookup", { q: "q" })), says("Found."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  const use = await session.until(isType("agent.custom_tool_use"));
  await session.send(customResult(use, "early"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map(resultText)).toEqual(["early"]);
});

test("one custom result of two leaves the other in the idle", async () => {
  const { uses } = await customCalls(2);
  const [use, other] = uses;
  if (!use || !other) throw new Error("The idle named too few calls.");
  await session.send(customResult(other, "7"));
  const idle = await session.until(isIdle("requires_action"));
  expect(idle.stop_reason?.event_ids).toEqual([use.id]);
  await session.send(customResult(use, "42"));
  await session.until(isTurnEnd);
});

test("the kind of answer must fit the kind of call", async () => {
  const { uses } = await customCalls(1);
  const [use] = uses;
  if (!use) throw new Error("The idle named nothing.");
  const before = await session.list();
  const asToolResult = await session.post(toolResult(use, "42"));
  const asConfirmation = await session.post(confirmation(use, "allow"));
  expect([400, 404]).toContain(asToolResult.status);
  expect([400, 404]).toContain(asConfirmation.status);
  expect(await session.list()).toEqual(before);
});

test("a worker's result is stored once: the same again is a 200, another a 409", async () => {
  await scripted.script(calls(toolUse("toolu_0", "bash", { command: "echo hi" })), says("Ran."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  const [use] = await session.untilAsked();
  if (!use) throw new Error("The idle named nothing.");
  const first = await session.post(toolResult(use, "hi", { is_error: false }));
  await session.until(isTurnEnd);
  const same = await session.post(toolResult(use, "hi", { is_error: false }));
  const different = await session.post(toolResult(use, "hi", { is_error: true }));
  expect(first.status).toBe(200);
  expect(same.status).toBe(200);
  expect(same.data).toEqual(first.data);
  expect(different.status).toBe(409);
  expect(different.headers.get("x-should-retry")).toBe("false");
});

test("twenty posts of one result at the same time store one event and resume the turn once", async () => {
  const { provider, uses } = await customCalls(1);
  const [use] = uses;
  if (!use) throw new Error("The idle named nothing.");
  const answers = await Promise.all(Array.from({ length: 20 }, () => session.post(customResult(use, "42"))));
  await session.until(isTurnEnd);
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
  expect(new Set(answers.map((answer) => answer.data[0]?.id)).size).toBe(1);
  expect((await session.list()).filter(isType("user.custom_tool_result"))).toHaveLength(1);
  expect(provider.count).toBe(2);
});

test("a result without content is accepted, and the model gets a valid result", async () => {
  const { provider, uses } = await customCalls(1);
  await session.send({ type: "user.custom_tool_result", custom_tool_use_id: uses[0]?.id });
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1)).toMatchObject([{ type: "tool_result", tool_use_id: "toolu_0" }]);
  const emptyTexts = messagesOf(provider, 1).flatMap(({ content }) => content.filter((block) => block.text === ""));
  expect(emptyTexts).toEqual([]);
});
