/** The server as an operator starts it: a process of its own on a data folder of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { removeFolder } from "../remove-folder.ts";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));
export const REAL_KEY = "sk-mango-restart-key-000000";

export interface RealServer {
  readonly url: string;
  readonly environmentId: string;
  request(target: string, init?: RequestInit & { readonly json?: unknown }): Promise<Response>;
  /** As the machine would on a power cut; settles when the process is gone. */
  kill(): Promise<void>;
  /** Asks it to end; its exit code. */
  terminate(): Promise<number | null>;
}

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

/** PostgreSQL runs as another user where we are root: it must be able to enter. */
export async function makeDataDir(): Promise<string> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "mango-restart-"));
  await chmod(dataDir, 0o711);
  return dataDir;
}

export async function startRealServer(dataDir: string, settings: Record<string, string> = {}): Promise<RealServer> {
  const { child, output, ended } = launch(dataDir, settings);
  const ready = new Promise<{ url: string; environmentId: string }>((resolve) => {
    child.stdout?.on("data", () => {
      const url = /https?:\/\/127\.0\.0\.1:\d+/.exec(output())?.[0];
      const environmentId = /env_[0-9a-z]{26}/.exec(output())?.[0];
      if (url !== undefined && environmentId !== undefined && /ready/i.test(output())) resolve({ url, environmentId });
    });
  });
  const started = await Promise.race([ready, ended]);
  if (!("url" in started)) throw new Error(`The server ended with ${started.code}: ${started.output}`);
  return {
    ...started,
    request(target, { json, ...init } = {}) {
      const headers = new Headers(init.headers);
      headers.set("authorization", `Bearer ${REAL_KEY}`);
      if (json !== undefined) headers.set("content-type", "application/json");
      const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
      return fetch(`${started.url}${target}`, { ...body, ...init, headers });
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    async terminate() {
      child.kill("SIGTERM");
      return (await ended).code;
    },
  };
}

/** A start that is expected to end by itself. */
export async function startAndEnd(dataDir: string, settings: Record<string, string> = {}): Promise<Ended> {
  return launch(dataDir, settings).ended;
}

function launch(dataDir: string, settings: Record<string, string>) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("MANGO_"));
  const child: ChildProcess = spawn(process.execPath, [path.join(PROJECT, "local/main.ts")], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...Object.fromEntries(inherited),
      MANGO_PORT: "0",
      MANGO_DATA_DIR: dataDir,
      MANGO_API_KEY: REAL_KEY,
      MANGO_WORKER: "on",
      ...settings,
    },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += String(chunk)));
  const ended = once(child, "exit").then(([code]): Ended => ({ code: code as number | null, output: text }));
  return { child, ended, output: () => text };
}

/** Command lines of processes that still have to do with the data folder. */
export async function processesOf(dataDir: string): Promise<{ pid: number; command: string }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      // A process may end while we look, and kernel threads have no command line.
      const command = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).replaceAll("\0", " ").trim();
      return { pid, command };
    }),
  );
  return found.filter(({ command }) => command.includes(dataDir));
}

/** Ends what a failed test left behind, each by its id, and removes the folder. */
export async function cleanUp(dataDir: string): Promise<void> {
  for (const { pid } of await processesOf(dataDir)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  await removeFolder(dataDir);
}
