import { describe, expect, it } from "vitest";
import type { OfferedTool } from "./requests.ts";
import { plan } from "./rules.ts";

const WEATHER: OfferedTool = {
  name: "get_weather",
  schema: { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city"] },
};

function callsOf(instruction: string) {
  return plan(instruction, [WEATHER]).steps.map(({ tool, input }) => [tool, input]);
}

describe("one request", () => {
  it.each([
    ["read README.md", "read", { file_path: "README.md" }],
    ["Please read the file docs/setup.md", "read", { file_path: "docs/setup.md" }],
    ["What's in package.json?", "read", { file_path: "package.json" }],
    ["summarise `my notes.txt`", "read", { file_path: "my notes.txt" }],
    ["open README", "read", { file_path: "README" }],
    ["run `ls -la`", "bash", { command: "ls -la" }],
    ["run the command ls -la", "bash", { command: "ls -la" }],
    ["can you please run `date`?", "bash", { command: "date" }],
    ["run echo hi > x.txt", "bash", { command: "echo hi > x.txt" }],
    ["write hello to notes.txt", "write", { file_path: "notes.txt", content: "hello" }],
    ['save "a and b" into out/n.txt', "write", { file_path: "out/n.txt", content: "a and b" }],
    [
      "create a file notes.txt with hello and goodbye",
      "write",
      { file_path: "notes.txt", content: "hello and goodbye" },
    ],
    ['create file n.txt with the content "x"', "write", { file_path: "n.txt", content: "x" }],
    ["create notes.txt", "write", { file_path: "notes.txt", content: "" }],
    ["edit n.txt: replace foo with bar", "edit", { file_path: "n.txt", old_string: "foo", new_string: "bar" }],
    ["in n.txt, replace a with b", "edit", { file_path: "n.txt", old_string: "a", new_string: "b" }],
    ["change `a b` to `c` in src/n.ts", "edit", { file_path: "src/n.ts", old_string: "a b", new_string: "c" }],
    ["list files", "glob", { pattern: "*" }],
    ["list the files in src", "glob", { pattern: "src/*" }],
    ["find *.md", "glob", { pattern: "*.md" }],
    ["find all **/*.ts files", "glob", { pattern: "**/*.ts" }],
    ["search for TODO", "grep", { pattern: "TODO" }],
    ["grep TODO in src/", "grep", { pattern: "TODO", path: "src/" }],
    ["search for TODO in src", "grep", { pattern: "TODO", path: "src" }],
    ['look for "durable agents" in README.md.', "grep", { pattern: "durable agents", path: "README.md" }],
    ["call get_weather", "get_weather", { city: "example" }],
    ['use get_weather with `{"city":"Paris"}`', "get_weather", { city: "Paris" }],
  ])("%s → %s", (instruction, tool, input) => {
    expect(callsOf(instruction)).toEqual([[tool, input]]);
  });
});

describe("no request", () => {
  it.each([
    "hello",
    "What is 2+2?",
    "run the tests",
    "Why did the last run fail?",
    "Write a haiku about the sea",
    "search the web for cats",
    "call get_time",
  ])("%s", (instruction) => {
    expect(callsOf(instruction)).toEqual([]);
  });
});

describe("several requests", () => {
  it("are taken in the order they were made", () => {
    expect(callsOf("read package.json and run `node --version`, then find *.md")).toEqual([
      ["read", { file_path: "package.json" }],
      ["bash", { command: "node --version" }],
      ["glob", { pattern: "*.md" }],
    ]);
  });

  it("can be one verb with several files", () => {
    expect(callsOf("read a.md, b.md and c.md")).toEqual([
      ["read", { file_path: "a.md" }],
      ["read", { file_path: "b.md" }],
      ["read", { file_path: "c.md" }],
    ]);
  });

  it.each([
    ["read a.md and run `date` in parallel", true],
    ["at the same time read a.md and run `date`", true],
    ["read a.md and run `date`", false],
  ])("run together when the user says so: %s", (instruction, parallel) => {
    expect(plan(instruction, [])).toMatchObject({ parallel, steps: [{ tool: "read" }, { tool: "bash" }] });
  });
});

it("does not stall on a text made to defeat its patterns", () => {
  const evil = ["replace a with b in ", "write a to in ", "create a          ", "read a.a.a/a", "`\"'"];
  const started = performance.now();
  for (const text of evil) plan(text.repeat(20_000), []);
  expect(performance.now() - started).toBeLessThan(2000);
});
