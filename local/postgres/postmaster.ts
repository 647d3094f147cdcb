import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../shared/ports/log.ts";
import type { Binaries } from "./binaries.ts";
import { programEnvironment } from "./cluster.ts";
import type { Home } from "./home.ts";
import { bringYourOwn, PostgresError } from "./postgres-error.ts";
import { type ServerSettings, serverFlags } from "./server-flags.ts";
import { runAs, type ServiceUser } from "./service-user.ts";

/** A running server: its port, its end, and the way to bring that about. */
export type Postmaster = Readonly<{ port: number; pid: number; ended: Promise<void>; stop(): Promise<void> }>;

export type LaunchOptions = Readonly<{
  home: Home;
  binaries: Binaries;
  settings?: ServerSettings | undefined;
  log?: Log | undefined;
  /** A port to come back to; without one, any that is free. */
  port?: number | undefined;
}>;

/** How often a start is tried again when its cause passes by itself, and how long to wait in between. */
const attempts = 60;
const pauseMs = 250;

/**
 * Starts the server and returns once it accepts connections. Two failures pass by themselves: somebody took the port
 * between our choice and the server's, and backends of a killed server that still hold its shared memory.
 */
export async function launch(options: LaunchOptions): Promise<Postmaster> {
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    const started = await launchOnce(options, port);
    if (!Array.isArray(started)) return started;
    const said = started.join(" ");
    const passing = /shared memory block|lock file .* already exists/.test(said) || /could not bind/.test(said);
    if (passing && attempt < attempts) {
      await sleep(pauseMs);
      continue;
    }
    const reason = started.find((line) => /FATAL|PANIC|error/.test(line)) ?? started.at(-1) ?? "it said nothing";
    throw new PostgresError(
      `PostgreSQL did not start on ${options.home.clusterDir} (${reason}): remove the cause, or ${bringYourOwn}.`,
    );
  }
}

/** The server, or the last lines it wrote before it gave up. */
async function launchOnce(options: LaunchOptions, port: number): Promise<Postmaster | string[]> {
  const { home, binaries, log } = options;
  const command = [path.join(binaries.dir, "bin", "postgres"), "-D", home.clusterDir, "-p", String(port)];
  const [program = "", ...args] = [...diesWithUs(home.user), ...command, ...serverFlags(options.settings)];
  const child = spawn(program, args, {
    ...runAs(home.user),
    env: programEnvironment,
    stdio: ["ignore", "ignore", "pipe"],
    // A group of its own: Ctrl-C in a terminal and a kill of our group must reach it through us, after its clients.
    detached: true,
  });
  const lines = follow(child, log);
  let over = false;
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      over = true;
      process.off("exit", interrupt);
      resolve();
    };
    child.once("close", end).once("error", (error) => {
      lines.push(`error: ${error.message}`);
      end();
    });
  });
  const interrupt = () => void child.kill("SIGINT");
  process.once("exit", interrupt);

  while (!over) {
    if (child.pid !== undefined && (await isReady(home.clusterDir, child.pid)))
      return { port, pid: child.pid, ended, stop: () => stop(child, ended) };
    await Promise.race([ended, sleep(20)]);
  }
  return lines;
}

/** Keeps the last lines for an error message and passes all on; the server's log level keeps row data out of them. */
function follow(child: ChildProcess, log: Log | undefined): string[] {
  const lines: string[] = [];
  if (!child.stderr) return lines;
  createInterface(child.stderr).on("line", (line) => {
    lines.push(line.trim());
    if (lines.length > 20) lines.shift();
    if (/PANIC|was terminated by signal/.test(line)) log?.warn(`PostgreSQL: ${line}`);
    else log?.debug(`PostgreSQL: ${line}`);
  });
  return lines;
}

/** The server writes its state into the eighth line of postmaster.pid; `pg_ctl` waits on the same line. */
async function isReady(clusterDir: string, pid: number): Promise<boolean> {
  const lines = (await readFile(path.join(clusterDir, "postmaster.pid"), "utf8").catch(() => "")).split("\n");
  return lines[0]?.trim() === String(pid) && lines[7]?.trim() === "ready";
}

/**
 * A fast shutdown: clients are cut off, everything committed is on disk. A server that does not manage is told to
 * leave at once, which costs the next start a recovery and no data.
 */
async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  for (const [signal, patienceMs] of [
    ["SIGINT", 30_000],
    ["SIGQUIT", 15_000],
    ["SIGKILL", 5_000],
  ] as const) {
    child.kill(signal);
    const waiting = new AbortController();
    const patience = sleep(patienceMs, "late", { signal: waiting.signal }).catch(() => "late");
    const outcome = await Promise.race([ended, patience]);
    waiting.abort();
    if (outcome !== "late") return;
  }
}

/**
 * On Linux the kernel can tell the server when we die, whatever kills us: then even `kill -9` leaves nothing behind.
 * Where the tool is missing, the next start stops the orphan.
 */
function diesWithUs(user: ServiceUser): string[] {
  if (process.platform !== "linux") return [];
  const prefix = ["--pdeathsig", "INT", "--"];
  const works = spawnSync("setpriv", [...prefix, "/bin/true"], { ...runAs(user), stdio: "ignore" }).status === 0;
  return works ? ["setpriv", ...prefix] : [];
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new PostgresError("The loopback interface has no ports.");
  return address.port;
}
