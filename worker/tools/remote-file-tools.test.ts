import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { startProcess } from "../sandbox/start-process.ts";
import { noAbort, temporaryDirectory } from "../testing/temporary.ts";
import { remoteFileTools } from "./remote-file-tools.ts";
import { StopReason } from "./tool.ts";

const PROGRAM = join(import.meta.dirname, "file-tools-main.ts");

/** The real program in a folder of its own; `command` puts another in its place. */
async function remote(command?: readonly string[]) {
  const folder = await temporaryDirectory();
  let starts = 0;
  const tools = remoteFileTools(async () => {
    starts += 1;
    const [program = "", ...args] = command ?? [process.execPath, PROGRAM, folder];
    return startProcess({ program, args, cwd: folder, env: { PATH: process.env["PATH"] ?? "" } });
  });
  onTestFinished(() => tools.close());
  return { folder, tools, starts: () => starts };
}

describe("file tools in a program of their own", () => {
  it("work as they do in the worker's process, in one program, side by side", async () => {
    const { folder, tools, starts } = await remote();
    await writeFile(join(folder, "a.txt"), "line one\nline two \u{1f96d}\n");
    const results = await Promise.all([
      tools.run("read", { file_path: "a.txt" }, noAbort),
      tools.run("grep", { pattern: "two" }, noAbort),
      tools.run("glob", { pattern: "*.txt" }, noAbort),
      tools.run("read", { file_path: "../up" }, noAbort),
      tools.run("write", { content: "x" }, noAbort),
    ]);
    expect(results).toEqual([
      { text: "line one\nline two \u{1f96d}\n", isError: false },
      { text: `${folder}/a.txt:2:line two \u{1f96d}`, isError: false },
      { text: `${folder}/a.txt`, isError: false },
      { text: 'read: path "../up" is outside the session\'s working directory', isError: true },
      { text: "write: file_path is required", isError: true },
    ]);
    expect(starts()).toBe(1);
  });

  it("answer a call that is told to stop at once, with the reason", async () => {
    const { tools } = await remote(["/bin/sleep", "600"]);
    const abort = new AbortController();
    const result = tools.run("read", { file_path: "a" }, abort.signal);
    abort.abort(new StopReason("the call was closed"));
    expect(await result).toEqual({ text: "read: the call was closed", isError: true });
  });

  it("say so when the program ends in the middle of a call, and start it again for the next", async () => {
    const { tools, starts } = await remote(["/bin/sh", "-c", "read line; exit 1"]);
    const ended = "edit: the program that works on the session's files ended; effect unknown";
    const input = { file_path: "a", old_string: "a", new_string: "b" };
    expect(await tools.run("edit", input, noAbort)).toEqual({ text: ended, isError: true });
    expect(await tools.run("edit", input, noAbort)).toEqual({ text: ended, isError: true });
    expect(starts()).toBe(2);
  });

  it.each([
    ["no JSON", "echo hello; sleep 600"],
    ["JSON of another shape", `echo '{"id":1,"text":1}'; sleep 600`],
    ["a line without an end", "head -c 5000000 /dev/zero | tr '\\0' x; sleep 600"],
  ])("end a program that says %s", async (_, script) => {
    const { tools } = await remote(["/bin/sh", "-c", script]);
    expect(await tools.run("read", { file_path: "a" }, noAbort)).toMatchObject({ isError: true });
  });

  it("say so when there is no place to run in", async () => {
    const tools = remoteFileTools(() => Promise.reject(new Error("no sandbox")));
    const expected = { text: "read: the session's sandbox could not be entered", isError: true };
    expect(await tools.run("read", { file_path: "a" }, noAbort)).toEqual(expected);
  });
});
