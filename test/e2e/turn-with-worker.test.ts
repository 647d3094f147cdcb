import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { calls, messagesOf, resultsOf, resultText, says, toolUse } from "./scripted-model.ts";
import { ask, confirmation, isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startTarget({ worker: true });
});
afterEach(() => session.close());
afterAll(() => scripted.close());

const fileOf = (name: string) => path.join(scripted.server.workspaceRoot, session.id, name);

test("a command through the worker leaves its file in the session's workspace", async () => {
  await scripted.script();
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("run `echo made-by-bash > made.txt; cat made.txt`"));
  const use = await session.until(isType("agent.tool_use"));
  const result = await session.until(isType("user.tool_result"));
  await session.until(isTurnEnd);
  expect(use).toMatchObject({
    name: "bash",
    input: { command: "echo made-by-bash > made.txt; cat made.txt" },
    evaluated_permission: "allow",
    evaluation: { type: "always_allow" },
  });
  expect(result).toMatchObject({ tool_use_id: use.id, is_error: false });
  expect(textOf(result)).toBe("made-by-bash");
  expect(await readFile(fileOf("made.txt"), "utf8")).toBe("made-by-bash\n");
});

test("each of the worker's tools does its part, in the order the model asks", async () => {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "write", { file_path: "sub/poem.txt", content: "roses are red\nviolets are blue\n" })),
    calls(toolUse("toolu_2", "edit", { file_path: "sub/poem.txt", old_string: "red", new_string: "white" })),
    calls(toolUse("toolu_3", "read", { file_path: "sub/poem.txt" })),
    calls(toolUse("toolu_4", "glob", { pattern: "**/*.txt" })),
    calls(toolUse("toolu_5", "grep", { pattern: "viol.ts" })),
    calls(toolUse("toolu_6", "bash", { command: "wc -l < sub/poem.txt; (exit 3)" })),
    says("done"),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("write a poem"));
  await session.until(isTurnEnd);
  const results = resultsOf(provider, 6);
  expect(results.map((block) => [block.tool_use_id, block.is_error ?? false])).toEqual([
    ["toolu_1", false],
    ["toolu_2", false],
    ["toolu_3", false],
    ["toolu_4", false],
    ["toolu_5", false],
    ["toolu_6", true],
  ]);
  const [wrote, edited, read, globbed, grepped, ran] = results.map(resultText);
  expect(wrote).toBe("wrote 31 bytes to sub/poem.txt");
  expect(edited).toBe("edited sub/poem.txt (1 replacement(s))");
  expect(read).toBe("roses are white\nviolets are blue\n");
  expect(globbed).toBe(fileOf("sub/poem.txt"));
  expect(grepped).toContain("violets are blue");
  expect(ran).toBe("2");
  expect(await readFile(fileOf("sub/poem.txt"), "utf8")).toBe("roses are white\nviolets are blue\n");
});

test("a model never leaves the workspace through the file tools", async () => {
  const provider = await scripted.script(
    calls(
      toolUse("toolu_1", "read", { file_path: "/etc/passwd" }),
      toolUse("toolu_2", "write", { file_path: "../outside.txt", content: "out" }),
    ),
    says("done"),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go out"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map((block) => block.is_error)).toEqual([true, true]);
  expect(resultText(resultsOf(provider, 1)[0])).not.toContain("root:");
  await expect(readFile(fileOf("../outside.txt"))).rejects.toThrow("ENOENT");
});

test("parallel calls of one round each get their result, in the order of the calls", async () => {
  const provider = await scripted.script(
    calls(
      toolUse("toolu_a", "bash", { command: "echo first" }),
      toolUse("toolu_b", "bash", { command: "echo second" }),
      toolUse("toolu_c", "write", { file_path: "third.txt", content: "third" }),
    ),
    says("All three."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("three at once"));
  await session.until(isTurnEnd);
  const events = await session.list();
  const uses = events.filter(isType("agent.tool_use"));
  const results = events.filter(isType("user.tool_result"));
  expect(uses.map((use) => use.name)).toEqual(["bash", "bash", "write"]);
  expect(results.map((result) => result.tool_use_id).toSorted()).toEqual(uses.map((use) => use.id).toSorted());
  expect(provider.count).toBe(2);
  expect(messagesOf(provider, 1).map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
  expect(resultsOf(provider, 1).map((block) => [block.tool_use_id, resultText(block)])).toEqual([
    ["toolu_a", "first"],
    ["toolu_b", "second"],
    ["toolu_c", "wrote 5 bytes to third.txt"],
  ]);
});

const unavailable = [
  ["a tool that the session does not have", "teleport", [toolset()]],
  ["a tool that is not enabled", "bash", [toolset({ name: "bash", enabled: false })]],
  ["a tool of an agent without any", "read", []],
] as const;
test.each(unavailable)("%s is refused, and the model goes on", async (_case, name, tools) => {
  const provider = await scripted.script(calls(toolUse("toolu_x", name, { command: "touch x" })), says("Without it."));
  session = await SessionDriver.open(scripted.server, { tools });
  await session.send(message("go"));
  const use = await session.until(isType("agent.tool_use"));
  const result = await session.until(isType("agent.tool_result"));
  const answer = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(use).toMatchObject({ name, evaluated_permission: "deny" });
  expect(use).not.toHaveProperty("evaluation");
  expect(result).toMatchObject({ tool_use_id: use.id, is_error: true });
  expect(textOf(result)).toBe(`Permission to use ${name} has been denied.`);
  expect(textOf(answer)).toBe("Without it.");
  expect(resultsOf(provider, 1)).toMatchObject([{ tool_use_id: "toolu_x", is_error: true }]);
  expect(resultText(resultsOf(provider, 1)[0])).toBe(`Permission to use ${name} has been denied.`);
  expect((await session.list()).filter(isType("user.tool_result"))).toEqual([]);
});

test("a refused call does not hold up its sibling", async () => {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "teleport", {}), toolUse("toolu_2", "bash", { command: "echo here" })),
    says("Half of it."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("both"));
  await session.until(isTurnEnd);
  expect(resultsOf(provider, 1).map(resultText)).toEqual(["Permission to use teleport has been denied.", "here"]);
});

test("provider ids of calls never reach a client", async () => {
  await scripted.script(calls(toolUse("toolu_private", "bash", { command: "echo hi" })), says("ok"));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  await session.until(isTurnEnd);
  expect(JSON.stringify(await session.list())).not.toContain("toolu_private");
  expect(session.feed.frames.map((frame) => frame.raw).join("")).not.toContain("toolu_private");
});

test("the real worker runs an allowed call only after the confirmation, and never a denied one", async () => {
  const provider = await scripted.script(
    calls(
      toolUse("toolu_yes", "bash", { command: "echo yes > yes.txt" }),
      toolUse("toolu_no", "bash", { command: "echo no > no.txt" }),
    ),
    says("Done."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset(ask("bash"))] });
  await session.send(message("both"));
  const uses = await session.untilAsked();
  const yes = uses.find((use) => use.input?.["command"] === "echo yes > yes.txt");
  const no = uses.find((use) => use.input?.["command"] === "echo no > no.txt");
  if (!yes || !no) throw new Error("The idle named too few calls.");
  expect(existsSync(fileOf("yes.txt"))).toBe(false);

  await session.send(confirmation(no, "deny", { deny_message: "Keep out." }), confirmation(yes, "allow"));
  await session.until(isTurnEnd);
  expect(existsSync(fileOf("yes.txt"))).toBe(true);
  expect(existsSync(fileOf("no.txt"))).toBe(false);
  const events = await session.list();
  expect(events.filter(isType("user.tool_result")).map((event) => event.tool_use_id)).toEqual([yes.id]);
  expect(events.filter(isType("agent.tool_result")).map((event) => event.tool_use_id)).toEqual([no.id]);
  expect(resultsOf(provider, 1).map((block) => [block.tool_use_id, block.is_error ?? false])).toEqual([
    ["toolu_yes", false],
    ["toolu_no", true],
  ]);
});
