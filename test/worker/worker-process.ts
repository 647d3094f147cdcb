/** Our worker as an operator runs it: a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { vi } from "vitest";
import { removeFolder } from "../remove-folder.ts";

const MAIN = fileURLToPath(new URL("../../worker/main.ts", import.meta.url));

export interface Served {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
}

export interface WorkerProcess {
  readonly pid: number;
  /** What it logged, one JSON object a line. */
  log(): string;
  /** As the kernel would on a lack of memory. */
  kill(): Promise<void>;
  /** Asks it to end; its exit code. */
  stop(): Promise<number | null>;
}

export interface WorkerProcessOptions {
  readonly launcher: "process" | "bwrap";
  readonly workspaceRoot: string;
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Arguments of Node itself. */
  readonly node?: readonly string[];
}

/** Resolves when the server has taken its first poll. */
export async function startWorkerProcess(
  { url, environmentId, environmentKey }: Served,
  { launcher, workspaceRoot, flags = [], env = {}, node = [] }: WorkerProcessOptions,
): Promise<WorkerProcess> {
  const own = await mkdtemp(path.join(tmpdir(), "mango-worker-process-"));
  const ready = path.join(own, "ready");
  const place = ["--url", url, "--environment-id", environmentId, "--workspace-root", workspaceRoot];
  const args = ["run", ...place, "--launcher", launcher, "--ready-file", ready, "--log-format", "json", "--debug"];
  const child = spawn(process.execPath, [...node, MAIN, ...args, ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
    env: {
      PATH: process.env["PATH"],
      MANGO_ENVIRONMENT_KEY: environmentKey,
      MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: "1",
      ...env,
    },
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  void ended.then(() => removeFolder(own));
  await vi.waitFor(
    async () => {
      if (child.exitCode !== null) throw new Error(`The worker ended with ${child.exitCode}: ${log}`);
      await readFile(ready);
    },
    { timeout: 60_000, interval: 20 },
  );
  return {
    pid: child.pid ?? 0,
    log: () => log,
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    async stop() {
      child.kill("SIGTERM");
      return ended;
    },
  };
}
