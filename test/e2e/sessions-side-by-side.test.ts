import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { calls, toolUse } from "./scripted-model.ts";
import { ask, confirmation, isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

// A server and a worker for each test: the worker stays with a session for a while after its turn, and has eight hands.
let scripted: Target;
let session: SessionDriver;
beforeEach(async () => {
  scripted = await startTarget({ worker: true });
});
afterEach(async () => {
  session.close();
  await scripted.close();
});

test("a session that waits for a person does not keep the worker from another", async () => {
  await scripted.script(
    calls(toolUse("toolu_1", "bash", { command: "echo waited" })),
    calls(toolUse("toolu_2", "bash", { command: "echo at-once" })),
  );
  const waiting = await SessionDriver.open(scripted.server, { tools: [toolset(ask("bash"))] });
  await waiting.send(message("go"));
  const [use] = await waiting.untilAsked();
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  expect(textOf(await session.until(isType("user.tool_result")))).toBe("at-once");
  await session.until(isTurnEnd);
  if (use) await waiting.send(confirmation(use, "allow"));
  expect(textOf(await waiting.until(isType("user.tool_result")))).toBe("waited");
  await waiting.until(isTurnEnd);
  waiting.close();
});

test("eight sessions at once run their commands each in its own workspace", async () => {
  await scripted.script();
  const sessions = await Promise.all(
    Array.from({ length: 8 }, () => SessionDriver.open(scripted.server, { tools: [toolset()] })),
  );
  const outputs = await Promise.all(
    sessions.map(async (one) => {
      await one.send(message("run `echo hello > mine.txt; ls; pwd`"));
      const result = await one.until(isType("user.tool_result"));
      await one.until(isTurnEnd);
      one.close();
      return textOf(result);
    }),
  );
  session = sessions[0] ?? session;
  const folders = sessions.map(({ id }) => path.join(scripted.server.workspaceRoot, id));
  expect(outputs).toEqual(folders.map((folder) => `mine.txt\n${folder}`));
});
