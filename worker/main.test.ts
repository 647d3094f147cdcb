import { type ChildProcess, spawn } from "node:child_process";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../test/eventually.ts";
import { ContractServer, failure } from "./testing/contract-server.ts";
import { temporaryDirectory } from "./testing/temporary.ts";

const MAIN = join(import.meta.dirname, "main.ts");
const KEY = "ekey-0123456789-secret";

interface Started {
  readonly child: ChildProcess;
  readonly exit: Promise<number | null>;
  readonly log: () => string;
}

const UNSAFE = { MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: "1" };

function start(args: readonly string[], key: string | null = KEY, more: Record<string, string> = UNSAFE): Started {
  const env = { PATH: process.env["PATH"], ...(key === null ? {} : { MANGO_ENVIRONMENT_KEY: key }), ...more };
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ["pipe", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  const exit = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  return { child, exit, log: () => log };
}

async function startWorker(extra: readonly string[] = [], key: string | null = KEY) {
  const server = await ContractServer.start();
  const root = await temporaryDirectory();
  const place = ["--url", server.url, "--environment-id", "env_1", "--workspace-root", join(root, "workspaces")];
  const args = ["run", ...place, "--launcher", "process", ...extra];
  return { server, root, args, ...start(args, key) };
}

describe("exit codes", () => {
  it.each<[string, readonly string[], string | null]>([
    ["no command", [], KEY],
    ["a missing option", ["run", "--environment-id", "env_1"], KEY],
    ["an unknown option", ["run", "--url", "http://localhost:1", "--environment-id", "env_1", "--nope"], KEY],
    ["a bad duration", ["run", "--url", "http://localhost:1", "--environment-id", "e", "--max-idle", "soon"], KEY],
    ["a bad address", ["run", "--url", "localhost", "--environment-id", "e"], KEY],
    ["a missing key", ["run", "--url", "http://localhost:1", "--environment-id", "e"], null],
    [
      "a key file that is not there",
      ["run", "--url", "http://l:1", "--environment-id", "e", "--environment-key-file", "/no"],
      null,
    ],
    ["an unknown launcher", ["run", "--url", "http://l:1", "--environment-id", "e", "--launcher", "chroot"], KEY],
    ["a bad size", ["run", "--url", "http://l:1", "--environment-id", "e", "--memory", "much"], KEY],
  ])("2 for %s", async (_, args, key) => {
    expect(await start(args, key).exit).toBe(2);
  });

  it("0 after SIGTERM, with running work given back", async () => {
    const { server, child, exit, root } = await startWorker();
    server.append("sesn_1", { type: "agent.tool_use", name: "bash", input: { command: "touch begun; sleep 300" } });
    const item = server.enqueue("sesn_1");
    await eventually(() => stat(join(root, "workspaces", "sesn_1", "begun")));
    child.kill("SIGTERM");
    expect(await exit).toBe(0);
    expect(item.state).toBe("stopped");
    expect(server.results("sesn_1").length).toBe(1);
  });

  it.each([[401], [403]])("3 when the server answers %i to the key", async (status) => {
    const { server, exit, log } = await startWorker();
    server.next("/work/poll", failure(status, "authentication_error"));
    expect(await exit).toBe(3);
    expect(log()).toContain("the server refuses the environment key for env_1");
  });

  it("1 when the environment is unknown", async () => {
    const { server, exit, log } = await startWorker();
    server.next("/work/poll", failure(404, "not_found_error"));
    expect(await exit).toBe(1);
    expect(log()).toContain("the server knows no environment env_1");
  });
});

it("the installed command shows its help, exit codes included, and ends with 0", async () => {
  const command = join(import.meta.dirname, "mango-worker.mjs");
  const child = spawn(process.execPath, [command, "run", "--help"], { stdio: ["ignore", "pipe", "ignore"] });
  let help = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    help += text;
  });
  expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
  for (const option of [
    "--launcher",
    "--workspace-root",
    "--max-idle",
    "--concurrency",
    "--allow-env",
    "--ready-file",
  ]) {
    expect(help).toContain(option);
  }
  expect(help).toContain("4  no launcher that works and may be used");
});

describe("the process launcher", () => {
  it.each<[string, Record<string, string>]>([
    ["without leave", {}],
    ["with anything but 1", { MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: "true" }],
  ])("is refused %s, with 4 and the way out, before the server hears of the worker", async (_, env) => {
    const server = await ContractServer.start();
    const args = ["run", "--url", server.url, "--environment-id", "env_1", "--launcher", "process"];
    const { exit, log } = start(args, KEY, env);
    expect(await exit).toBe(4);
    expect(log()).toContain("isolated from nothing");
    expect(log()).toContain("MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER=1");
    expect(server.requests).toEqual([]);
  });

  it("does not stand in for one that was asked for and does not work", async () => {
    const server = await ContractServer.start();
    const args = ["run", "--url", server.url, "--environment-id", "env_1", "--launcher", "docker"];
    // There is no engine behind this path.
    const { exit, log } = start(args, KEY, { PATH: "/nonexistent", ...UNSAFE });
    expect(await exit).toBe(4);
    expect(log()).toContain("docker cannot run tools here");
  });
});

describe("the environment key", () => {
  it.each<[string, (path: string) => readonly string[]]>([
    ["an argument", () => ["--environment-key", KEY]],
    ["an argument with =", () => [`--environment-key=${KEY}`]],
    ["a file", (path) => ["--environment-key-file", path]],
  ])("may come as %s, and is then in no /proc", async (_, flags) => {
    const path = join(await temporaryDirectory(), "key");
    await writeFile(path, `${KEY}\n`, { mode: 0o600 });
    const { server, child } = await startWorker(flags(path), null);
    await eventually(() => expect(server.requests.length).toBeGreaterThan(0));
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(await readFile(`/proc/${child.pid}/cmdline`, "utf8")).toContain("--url");
    expect(await readFile(`/proc/${child.pid}/cmdline`, "utf8")).not.toContain(KEY);
    expect(await readFile(`/proc/${child.pid}/environ`, "utf8")).not.toContain(KEY);
  });

  it("is nowhere that a tool can look: environment, /proc of itself, of the worker, of anyone; nor in the log", async () => {
    const { server, child, log } = await startWorker(["--log-format", "json", "--debug"]);
    const look =
      "env; cat /proc/self/environ; cat /proc/$PPID/environ /proc/$PPID/cmdline; ls -l /proc/$PPID/fd; echo looked";
    server.append("sesn_1", { type: "agent.tool_use", name: "bash", input: { command: look } });
    server.enqueue("sesn_1");
    await eventually(() => expect(server.results("sesn_1").length).toBe(1));
    const result = JSON.stringify(server.results("sesn_1"));
    expect(result).toContain("looked");
    expect(result).toContain("main.ts");
    expect(result).not.toContain(KEY);
    expect(result).not.toContain("token-1");
    // The worker does have it.
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(await readFile(`/proc/${child.pid}/environ`, "utf8")).not.toContain(KEY);
    expect(log()).toContain('"ran a tool"');
    expect(log()).not.toContain(KEY);
    expect(log()).not.toContain("token-1");
    expect(log()).not.toContain("looked");
  });
});

describe("a crash", () => {
  it("never runs a call twice: after kill -9 the next worker says that the effect is unknown", async () => {
    const { server, root, child, exit, args } = await startWorker();
    const effects = join(root, "workspaces", "sesn_1", "effects");
    server.append("sesn_1", { type: "agent.tool_use", name: "bash", input: { command: "echo x >> effects; sleep 1" } });
    server.append("sesn_1", { type: "agent.tool_use", name: "bash", input: { command: "echo second" } });
    server.enqueue("sesn_1");
    await eventually(() => stat(effects));
    child.kill("SIGKILL");
    await exit;
    server.enqueue("sesn_1");
    start(args);
    await eventually(() => expect(server.results("sesn_1").length).toBe(2));
    const [unknown, second] = server.results("sesn_1");
    expect(unknown).toMatchObject({ tool_use_id: "sevt_1", is_error: true });
    expect(JSON.stringify(unknown)).toContain("its effect is unknown");
    expect(second).toMatchObject({ tool_use_id: "sevt_2", content: [{ text: "second" }] });
    expect(await readFile(effects, "utf8")).toBe("x\n");
  });
});

describe("the parent", () => {
  it("is told through the ready file, which goes at the end", async () => {
    const ready = join(await temporaryDirectory(), "ready");
    const { child, exit } = await startWorker(["--ready-file", ready]);
    await eventually(async () => expect(await readFile(ready, "utf8")).toBe(`${child.pid}\n`));
    child.kill("SIGINT");
    expect(await exit).toBe(0);
    await expect(stat(ready)).rejects.toThrow("ENOENT");
  });

  it("takes the worker with it when its pipes close, with the running call answered", async () => {
    const { server, root, child, exit } = await startWorker(["--exit-with-parent", "--debug"]);
    server.append("sesn_1", { type: "agent.tool_use", name: "bash", input: { command: "touch begun; sleep 300" } });
    const item = server.enqueue("sesn_1");
    await eventually(() => stat(join(root, "workspaces", "sesn_1", "begun")));
    child.stderr?.destroy();
    child.stdin?.end();
    expect(await exit).toBe(0);
    expect(item.state).toBe("stopped");
    expect(server.results("sesn_1").length).toBe(1);
  });

  it("may close the pipe without that option", async () => {
    const { server, child } = await startWorker();
    child.stdin?.end();
    await eventually(() => expect(server.requests.length).toBe(2));
    const item = server.enqueue("sesn_1", { type: "healthcheck" });
    await eventually(() => expect(item.state).toBe("stopped"));
    expect(child.exitCode).toBe(null);
  });
});
