/** The machine that the server and its worker run on: it loses power, comes back, and time passes meanwhile. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import type { CrashPoint } from "./fault-points.ts";

const SERVER = fileURLToPath(new URL("./fault-server.ts", import.meta.url));
const WORKER = fileURLToPath(new URL("../../worker/main.ts", import.meta.url));
const COMPILE_CACHE = fileURLToPath(new URL("../../node_modules/.cache/node-compile", import.meta.url));
export const FAULT_KEY = "sk-mango-faults-key-000000";

export interface Crashed extends CrashPoint {
  readonly kind: string;
}

interface Ready {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
}

export interface ServerRun extends Ready {
  readonly pid: number;
  /** Settles when the process is gone: at which point it killed itself, if it did. */
  readonly gone: Promise<Crashed | null>;
  /** What it logged as a warning or worse. */
  readonly log: readonly string[];
  /** Ends it in order; the points it passed. */
  stop(): Promise<readonly string[]>;
}

export async function startServer(options: {
  readonly connectionString: string;
  readonly modelUrl: string;
  readonly port?: number;
  /** With a folder the bundled worker runs too. */
  readonly workspaces?: string;
  readonly crash?: CrashPoint;
}): Promise<ServerRun> {
  const { connectionString, modelUrl, port = 0, workspaces, crash } = options;
  const child = spawn(
    process.execPath,
    [
      "--disable-warning=ExperimentalWarning",
      SERVER,
      ...["--database", connectionString, "--model", modelUrl, "--port", String(port), "--key", FAULT_KEY],
      ...(workspaces === undefined ? [] : ["--workspaces", workspaces]),
      ...(crash === undefined ? [] : ["--crash", `${crash.n}:${crash.side}`]),
    ],
    {
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_COMPILE_CACHE: COMPILE_CACHE },
    },
  );
  const log: string[] = [];
  createInterface(child.stderr).on("line", (line) => log.push(line));
  let crashed: Crashed | null = null;
  let points: readonly string[] = [];
  const ready = Promise.withResolvers<Ready>();
  createInterface(child.stdout).on("line", (line) => {
    const said = JSON.parse(line) as { ready?: Ready; crashed?: Crashed; points?: readonly string[] };
    if (said.ready) ready.resolve(said.ready);
    if (said.crashed) crashed = said.crashed;
    if (said.points) points = said.points;
  });
  // `close` comes after everything that was written has been read.
  const gone = once(child, "close").then(() => {
    ready.reject(new Error(`The server ended before it was ready:\n${log.join("\n")}`));
    return crashed;
  });
  return {
    ...(await ready.promise),
    pid: child.pid ?? 0,
    gone,
    log,
    async stop() {
      child.kill("SIGTERM");
      await gone;
      return points;
    },
  };
}

export function killServer(run: ServerRun): Promise<unknown> {
  kill(run.pid);
  return run.gone;
}

/** Ends the worker of that folder and the tools that it runs, at once; how many processes there were. */
export async function killWorker(workspaces: string): Promise<number> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const commands = await Promise.all(
    pids.map(async (pid) => ({ pid, command: await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "") })),
  );
  const workers = commands.filter(
    ({ command }) => command.includes(`${path.sep}worker${path.sep}main.ts`) && command.includes(workspaces),
  );
  for (const { pid } of workers) kill(pid);
  return workers.length;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}

/** A worker of our own choosing, with room for many sessions; it ends with us. */
export function startWorker(server: Ready, workspaces: string): void {
  const child = spawn(
    process.execPath,
    [
      "--disable-warning=ExperimentalWarning",
      WORKER,
      ...["run", "--exit-with-parent", "--url", server.url, "--environment-id", server.environmentId],
      ...["--workspace-root", workspaces, "--concurrency", "50", "--max-idle", "3s", "--log-format", "json"],
    ],
    {
      stdio: ["pipe", "ignore", "ignore"],
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        NODE_COMPILE_CACHE: COMPILE_CACHE,
        MANGO_ENVIRONMENT_KEY: server.environmentKey,
      },
    },
  );
  child.on("error", () => {});
}

/**
 * A quarter of an hour passes: every lease and every claim of whoever was there runs out. Only for owners who are dead:
 * a live one would not have let its lease run out. When only the worker is dead, the server's own leases stay.
 */
export async function timePasses(database: pg.Pool, dead: "all" | "worker"): Promise<void> {
  const later = "interval '15 minutes'";
  await database.query(
    `update work_items set lease_expires_at = lease_expires_at - ${later}, claimed_at = claimed_at - ${later}
      where state <> 'stopped'`,
  );
  if (dead === "worker") return;
  await database.query(
    `update provider_calls set lease_expires_at = lease_expires_at - ${later} where state = 'started'`,
  );
  await database.query(`update outbox set claimed_until = claimed_until - ${later}`);
}
