import { spawnSync } from "node:child_process";
import { readFile, readlink, realpath, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "../../shared/ports/log.ts";
import { PostgresError } from "./postgres-error.ts";

/**
 * Stops a server that an earlier process of ours left running on the cluster. Stopping is sturdier than adopting: the
 * new server has this release's settings, reports to this log, and ends with this process. The caller holds the claim
 * on the data folder, so a live server here belongs to nobody.
 */
export async function stopOrphan(clusterDir: string, log?: Log): Promise<void> {
  const pidFile = path.join(clusterDir, "postmaster.pid");
  const pid = Number.parseInt(await readFile(pidFile, "utf8").catch(() => ""), 10);
  if (!(pid > 0) || !isAlive(pid)) return;
  if (!(await isServerOf(pid, clusterDir))) {
    // After a reboot the number may be anybody's, and PostgreSQL would take any process of its user for the server.
    await rm(pidFile, { force: true });
    return;
  }
  log?.info(`stopping the PostgreSQL that an earlier run left behind (process ${pid})`);
  for (const signal of ["SIGINT", "SIGQUIT"] as const) {
    if (isAlive(pid)) process.kill(pid, signal);
    for (let waited = 0; waited < 30_000; waited += 25) {
      if (!isAlive(pid)) return;
      await sleep(25);
    }
  }
  throw new PostgresError(
    `A PostgreSQL of an earlier run (process ${pid}) does not stop: end it with "kill -9 ${pid}" and start again.`,
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** A server's working directory is its cluster. Where the system does not tell, its name has to do. */
async function isServerOf(pid: number, clusterDir: string): Promise<boolean> {
  if (process.platform === "linux") {
    const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
    return cwd === (await realpath(clusterDir));
  }
  const { stdout } = spawnSync("ps", ["-o", "comm=", "-p", String(pid)], { encoding: "utf8" });
  return /postgres/.test(stdout);
}
