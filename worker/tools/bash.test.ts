import { readFileSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../../test/eventually.ts";
import { processLauncher } from "../sandbox/process-launcher.ts";
import { toolEnvironment } from "../sandbox/tool-environment.ts";
import { noAbort, temporaryWorkspace } from "../testing/temporary.ts";
import { bashTool } from "./bash.ts";
import { StopReason } from "./tool.ts";

async function bash(source: Record<string, string> = {}) {
  const { workspace } = await temporaryWorkspace();
  const env = toolEnvironment({ PATH: process.env["PATH"] ?? "", ...source });
  const tool = bashTool(await processLauncher.enter({ sessionId: "sesn_1", folder: workspace.path }), env);
  onTestFinished(() => tool.close());
  return { workspace, tool, run: (input: unknown, signal = noAbort) => tool.run(input, signal) };
}

/** Neither gone nor a zombie that the host has not collected yet. */
function isAlive(pid: string): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid.trim()}/stat`, "utf8"));
  } catch {
    return false;
  }
}

describe("the call's idempotency key", () => {
  it("F03 F04 stands in the environment of each command, the running call's and no other", async () => {
    const { tool } = await bash();
    const look = { command: "printenv MANGO_IDEMPOTENCY_KEY || echo none" };
    expect((await tool.run(look, noAbort, "key-'1'")).text).toBe("key-'1'");
    expect((await tool.run(look, noAbort, "key-2")).text).toBe("key-2");
    expect((await tool.run(look, noAbort)).text).toBe("none");
  });
});

describe("output and exit codes", () => {
  it("starts in the workspace", async () => {
    const { run, workspace } = await bash();
    expect(await run({ command: "pwd" })).toEqual({ text: workspace.path, isError: false });
  });

  it("merges the error output in order and trims trailing newlines", async () => {
    const { run } = await bash();
    const result = await run({ command: "echo one; echo two >&2; echo three; echo; echo" });
    expect(result).toEqual({ text: "one\ntwo\nthree", isError: false });
  });

  it("gives no output as empty text", async () => {
    const { run } = await bash();
    expect(await run({ command: "true" })).toEqual({ text: "", isError: false });
  });

  it("makes a non-zero exit an error with the output as its text", async () => {
    const { run } = await bash();
    expect(await run({ command: "echo broken; (exit 3)" })).toEqual({ text: "broken", isError: true });
  });

  it("finds a command's end in a shell that shows each command", async () => {
    const { run } = await bash();
    await run({ command: "trap 'echo \"+ $BASH_COMMAND\"' DEBUG", timeout_ms: 5_000 });
    const { text, isError } = await run({ command: "echo one; false", timeout_ms: 5_000 });
    expect(text).toMatch(/^\+ echo one\none\n\+ false\n/m);
    expect(isError).toBe(true);
    expect(text).not.toContain("timed out");
  });

  it("names the exit code when there is no output", async () => {
    const { run } = await bash();
    expect(await run({ command: "(exit 7)" })).toEqual({ text: "exit 7", isError: true });
  });

  it("strips colour sequences", async () => {
    const { run } = await bash();
    expect((await run({ command: "printf '\\033[1;31mred\\033[0m'" })).text).toBe("red");
  });

  it("keeps quotes, unicode and several lines as they are", async () => {
    const { run } = await bash();
    const result = await run({ command: "x='it'\"'\"'s'\necho \"$x\" 'über 🥭' \\\n  end" });
    expect(result.text).toBe("it's über 🥭 end");
  });

  it("keeps exactly the last 102,400 characters", async () => {
    const { run } = await bash();
    const { text, isError } = await run({ command: "printf 'x%.0s' {1..150000}; printf 'tail'" });
    expect(isError).toBe(false);
    expect(text).toBe(`[output truncated]\n${"x".repeat(102_396)}tail`);
  });

  it("does not truncate an output of exactly 102,400 characters", async () => {
    const { run } = await bash();
    expect((await run({ command: "printf 'x%.0s' {1..102400}" })).text).toBe("x".repeat(102_400));
  });

  it("keeps the end of an output far above what it holds in memory", async () => {
    const { run } = await bash();
    const { text } = await run({ command: "yes 0123456789 | head -c 5000000; echo; echo END" });
    expect(text.startsWith("[output truncated]\n")).toBe(true);
    expect(text.endsWith("\nEND")).toBe(true);
    expect(text.length).toBe("[output truncated]\n".length + 102_400);
  });

  it("gives a command that reads its input an end of file", async () => {
    const { run } = await bash();
    expect(await run({ command: "cat; echo done" })).toEqual({ text: "done", isError: false });
  });
});

describe("persistence", () => {
  it("keeps directory, variables and functions between calls", async () => {
    const { run, workspace } = await bash();
    await run({ command: "mkdir -p a && cd a && export COLOUR=mango && greet() { echo hi $1; }" });
    expect((await run({ command: "pwd; greet $COLOUR" })).text).toBe(`${workspace.path}/a\nhi mango`);
  });

  it("restarts on its own", async () => {
    const { run, workspace } = await bash();
    await run({ command: "cd /; X=1" });
    expect(await run({ restart: true })).toEqual({ text: "bash session restarted", isError: false });
    expect((await run({ command: 'pwd; echo "x=$X"' })).text).toBe(`${workspace.path}\nx=`);
  });

  it("restarts before a command given with it", async () => {
    const { run } = await bash();
    await run({ command: "X=1" });
    expect((await run({ command: "echo x=$X", restart: true })).text).toBe("x=");
  });

  it("survives a syntax error", async () => {
    const { run } = await bash();
    await run({ command: "X=kept" });
    const broken = await run({ command: "echo 'unclosed" });
    expect(broken.isError).toBe(true);
    expect(broken.text).toContain("unexpected EOF");
    expect((await run({ command: "echo $X" })).text).toBe("kept");
  });

  it("is not confused by tracing, redirected output or a command that prints what marks look like", async () => {
    const { run } = await bash();
    expect((await run({ command: "set -x; echo hi" })).text).toBe("++ echo hi\nhi");
    await run({ command: "set +x; exec >/dev/null" });
    expect(await run({ command: "echo __MANGO_x__0" })).toEqual({ text: "__MANGO_x__0", isError: false });
  });

  it("reports the shell's own exit and goes on with a new one", async () => {
    const { run } = await bash();
    expect(await run({ command: "echo bye; exit 4" })).toEqual({
      text: "bash: the shell ended (exit code 4); the next command starts a new shell\nbye",
      isError: true,
    });
    expect((await run({ command: "echo again" })).text).toBe("again");
  });

  it("works again after its directory was deleted", async () => {
    const { run, workspace } = await bash();
    await rm(workspace.path, { recursive: true });
    await run({ restart: true });
    expect((await run({ command: "true" })).text).toContain("ENOENT");
    await mkdir(workspace.path);
    expect(await run({ command: "pwd" })).toEqual({ text: workspace.path, isError: false });
  });
});

describe("limits", () => {
  it("kills the command and its children when the time is up", async () => {
    const { run, workspace } = await bash();
    const result = await run({ command: "echo begun; sleep 300 & echo $! > child; wait", timeout_ms: 300 });
    expect(result).toEqual({
      text: "bash: command timed out after 300 ms; the next command starts a new shell\nbegun",
      isError: true,
    });
    const child = await readFile(join(workspace.path, "child"), "utf8");
    await eventually(() => expect(isAlive(child)).toBe(false));
    expect((await run({ command: "echo fresh" })).text).toBe("fresh");
  });

  it("stops on abort, with the reason as its text, and kills the children", async () => {
    const { run, workspace } = await bash();
    const abort = new AbortController();
    const result = run({ command: "sleep 300 & echo $! > child; wait" }, abort.signal);
    const child = await eventually(async () => {
      const pid = await readFile(join(workspace.path, "child"), "utf8");
      expect(pid).toMatch(/^\d+\n$/);
      return pid;
    });
    abort.abort(new StopReason("the worker is stopping"));
    expect(await result).toEqual({ text: "bash: the worker is stopping", isError: true });
    await eventually(() => expect(isAlive(child)).toBe(false));
  });

  it("kills background jobs when it is closed", async () => {
    const { run, tool } = await bash();
    const { text: child } = await run({ command: "sleep 300 >/dev/null & echo $!" });
    expect(isAlive(child)).toBe(true);
    tool.close();
    await eventually(() => expect(isAlive(child)).toBe(false));
  });
});

describe("input", () => {
  it.each([
    [{}, "bash: command is required"],
    [{ command: "" }, "bash: command is required"],
    [{ command: 5 }, "bash: command must be a string"],
    [{ restart: "yes" }, "bash: restart must be true or false"],
    [{ command: "true", timeout_ms: 0 }, "bash: timeout_ms must be a positive whole number of milliseconds"],
    [{ command: "true", timeout_ms: 1.5 }, "bash: timeout_ms must be a positive whole number of milliseconds"],
    [{ command: "echo \0" }, "bash: command must not contain NUL characters"],
    ["ls", "bash: the input must be an object"],
  ])("answers %j with: %s", async (input, text) => {
    const { run } = await bash();
    expect(await run(input)).toEqual({ text, isError: true });
  });

  it("takes null for what is left out", async () => {
    const { run } = await bash();
    const result = await run({ command: "echo ok", restart: null, timeout_ms: null });
    expect(result).toEqual({ text: "ok", isError: false });
  });
});

describe("environment", () => {
  const source = {
    HOME: "/home/someone",
    MANGO_ENVIRONMENT_KEY: "sk-secret-key",
    ANTHROPIC_AUTH_TOKEN: "sk-secret-token",
    DATABASE_URL: "postgres://secret",
  };

  it("has the allowed variables and nothing of the worker's credentials", async () => {
    const { run } = await bash(source);
    const { text } = await run({ command: "env; tr '\\0' '\\n' < /proc/self/environ; set" });
    expect(text).toContain("HOME=/home/someone");
    expect(text).not.toContain("secret");
  });

  it("lets the operator name more", () => {
    expect(toolEnvironment({ ...source, PATH: "/bin" }, ["DATABASE_URL"])).toEqual({
      PATH: "/bin",
      HOME: "/home/someone",
      DATABASE_URL: "postgres://secret",
    });
  });
});
