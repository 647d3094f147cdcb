import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Log } from "../../shared/ports/log.ts";
import { removeFolder } from "../../test/remove-folder.ts";
import { type EmbeddedPostgres, type StartPostgresOptions, startPostgres } from "./postgres.ts";
import { PostgresError } from "./postgres-error.ts";

/** The quick settings: what is tested here are processes and folders, and a killed process loses nothing of either. */
const settings = { fsync: "off" };

/** What PostgreSQL tells a client that it cuts off. */
const adminShutdown = "57P01";

let seed: string;
let top: string;
let dataDir: string;
let said: string[];
const running: EmbeddedPostgres[] = [];
const log: Log = {
  debug() {},
  info: (message) => said.push(message),
  warn: (message) => said.push(message),
  error: (message) => said.push(message),
};

// Making a cluster takes a second. One is made here; whoever does not test that gets a copy.
beforeAll(async () => {
  seed = await mkdtemp(path.join(tmpdir(), "mango-postgres-seed-"));
  await chmod(seed, 0o711);
  await (await startPostgres({ dataDir: seed, settings })).stop();
});
afterAll(async () => {
  await removeFolder(seed);
});

beforeEach(async () => {
  top = await mkdtemp(path.join(tmpdir(), "mango-postgres-"));
  await chmod(top, 0o711);
  dataDir = path.join(top, "data");
  said = [];
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((server) => server.stop()));
  await removeFolder(top);
});

/** A data folder that has a cluster. `cp` keeps the owner, which PostgreSQL insists on. */
function fillDataDir(): void {
  execFileSync("cp", ["-a", seed, dataDir]);
}

async function start(options: Partial<StartPostgresOptions> = {}): Promise<EmbeddedPostgres> {
  const server = await startPostgres({ dataDir, log, settings, ...options });
  running.push(server);
  return server;
}

async function query(server: { connectionString: string }, statement: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: server.connectionString });
  await client.connect();
  try {
    return (await client.query(statement)).rows;
  } finally {
    await client.end();
  }
}

async function serverPid(cluster = path.join(dataDir, "cluster")): Promise<number> {
  return Number.parseInt(await readFile(path.join(cluster, "postmaster.pid"), "utf8"), 10);
}

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe("the embedded PostgreSQL", () => {
  test("is durable by default, speaks UTF-8 and UTC, and listens on the loopback only", async () => {
    const server = await start({ settings: {} });

    const [found] = await query(
      server,
      `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
              current_setting('server_encoding') as encoding, current_setting('timezone') as zone,
              current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets`,
    );

    expect(found).toEqual({
      fsync: "on",
      commit: "on",
      encoding: "UTF8",
      zone: "UTC",
      addresses: "127.0.0.1",
      sockets: "",
    });
  });

  test("keeps its data over a restart, and leaves no process when stopped", async () => {
    fillDataDir();
    const first = await start();
    await query(first, "create table kept as select 42 as answer");
    const pid = await serverPid();

    await first.stop();
    const alive = isAlive(pid);
    const second = await start();

    expect(alive).toBe(false);
    expect(await query(second, "select answer from kept")).toEqual([{ answer: 42 }]);
  });

  test("lets nobody in without the password, which only its owner can read", async () => {
    fillDataDir();
    const server = await start();
    const stranger = new URL(server.connectionString);
    stranger.password = "wrong";

    await expect(query({ connectionString: stranger.href }, "select")).rejects.toThrow(
      "password authentication failed",
    );

    expect((await stat(path.join(dataDir, "password"))).mode & 0o777).toBe(0o600);
  });

  test("cuts its clients off when it stops", async () => {
    fillDataDir();
    const server = await start();
    const client = new pg.Client({ connectionString: server.connectionString });
    await client.connect();
    const codes: unknown[] = [];
    client.on("error", (error) => codes.push("code" in error ? error.code : undefined));
    const ended = new Promise<void>((resolve) => client.on("end", () => resolve()));

    await server.stop();

    await ended;
    expect(codes[0]).toBe(adminShutdown);
  });

  test("comes back on the same port when it is killed, with what was committed", async () => {
    fillDataDir();
    const server = await start();
    await query(server, "create table kept as select 42 as answer");
    const killed = await serverPid();

    process.kill(killed, "SIGKILL");

    await expect
      .poll(() => query(server, "select answer from kept").catch(() => "not yet"), { timeout: 20_000 })
      .toEqual([{ answer: 42 }]);
    expect(await serverPid()).not.toBe(killed);
    expect(said).toContain("PostgreSQL ended unexpectedly: starting it again");
  });

  test("says when it is lost for good", async () => {
    fillDataDir();
    const server = await start();
    const pid = await serverPid();
    await rename(path.join(dataDir, "cluster", "global"), path.join(dataDir, "cluster", "gone"));

    process.kill(pid, "SIGKILL");

    const reason = await server.lost;
    expect(reason).toBeInstanceOf(PostgresError);
    expect(reason.message).toContain("set MANGO_DATABASE_URL");
  });
});

describe("after a kill", () => {
  /** A process that starts the server on the data folder and is killed; without `setpriv` its PostgreSQL lives on. */
  async function killedProcess(env: NodeJS.ProcessEnv): Promise<number> {
    const script = `
      import { startPostgres } from ${JSON.stringify(fileURLToPath(new URL("./postgres.ts", import.meta.url)))};
      const server = await startPostgres({ dataDir: ${JSON.stringify(dataDir)} });
      console.log("started");`;
    const args = ["--disable-warning=ExperimentalWarning", "--input-type=module", "--eval", script];
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    const pid = await serverPid();
    child.kill("SIGKILL");
    await once(child, "exit");
    return pid;
  }

  test("of our process the server that was left running is stopped and a new one started", async () => {
    fillDataDir();
    // A PATH without setpriv, as on macOS.
    const tools = path.join(top, "tools");
    await mkdir(tools);
    await writeFile(path.join(tools, "id"), '#!/bin/sh\nexec /usr/bin/id "$@"\n', { mode: 0o755 });
    const orphan = await killedProcess({ PATH: tools });
    expect(isAlive(orphan)).toBe(true);

    const server = await start();

    expect(isAlive(orphan)).toBe(false);
    expect(said).toContain(`stopping the PostgreSQL that an earlier run left behind (process ${orphan})`);
    expect(await query(server, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test.runIf(process.platform === "linux")("of our process the kernel ends the server", async () => {
    fillDataDir();
    const orphan = await killedProcess(process.env);

    await expect.poll(() => isAlive(orphan), { timeout: 20_000 }).toBe(false);
  });

  test("of the server the next start recovers", async () => {
    fillDataDir();
    const first = await start();
    await query(first, "create table kept as select 42 as answer");
    await first.stop();
    // What a killed server leaves: a pid file that names a process of somebody else by now.
    await writeFile(path.join(dataDir, "cluster", "postmaster.pid"), `${process.pid}\n`);

    const second = await start();

    expect(await query(second, "select answer from kept")).toEqual([{ answer: 42 }]);
  });

  test("half way through the first start the next one begins anew", async () => {
    await mkdir(path.join(dataDir, "cluster.partial"), { recursive: true });
    await chmod(dataDir, 0o711);
    await writeFile(path.join(dataDir, "cluster.partial", "PG_VERSION"), "17\n");

    const server = await start();

    expect(await query(server, "select 1 as one")).toEqual([{ one: 1 }]);
  });
});

describe("what cannot work says what to do", () => {
  test("a cluster of another major version", async () => {
    await mkdir(path.join(dataDir, "cluster"), { recursive: true });
    await writeFile(path.join(dataDir, "cluster", "PG_VERSION"), "16\n");
    await chmod(dataDir, 0o711);

    await expect(start()).rejects.toThrow(/was made by PostgreSQL 16, and this release of Mango brings 17/);
  });

  test("a cluster whose password is gone", async () => {
    fillDataDir();
    await rm(path.join(dataDir, "password"));

    await expect(start()).rejects.toThrow(/password is missing: restore/);
  });

  test("a cluster whose password is another one", async () => {
    fillDataDir();
    await writeFile(path.join(dataDir, "password"), "another");

    await expect(start()).rejects.toThrow(/its password file does not fit its data/);
  });
});

/**
 * Only root has the problem: it lends PostgreSQL another user, who may not be able to enter. As an ordinary user
 * these would prove nothing, so they do not exist there.
 */
if (process.getuid?.() === 0)
  describe("as root, in a folder that only root may enter", () => {
    beforeEach(async () => {
      await mkdir(path.join(top, "private"), { mode: 0o700 });
      dataDir = path.join(top, "private", "data");
    });

    async function home(): Promise<string> {
      return JSON.parse(await readFile(path.join(dataDir, "location.json"), "utf8")).home;
    }
    afterEach(async () => {
      await Promise.all(running.splice(0).map((server) => server.stop()));
      const place = await home().catch(() => undefined);
      if (place) await removeFolder(place);
    });

    test("the cluster is kept elsewhere, which one line says, and found again", async () => {
      const first = await start();
      await query(first, "create table kept as select 42 as answer");
      await first.stop();

      const second = await start();

      expect(await query(second, "select answer from kept")).toEqual([{ answer: 42 }]);
      expect(said).toEqual([expect.stringContaining(`the database of this folder is kept in ${await home()}`)]);
      expect((await readdir(dataDir)).sort()).toEqual(["location.json"]);
    });

    test("a folder that was moved keeps its cluster", async () => {
      const first = await start();
      await query(first, "create table kept as select 42 as answer");
      await first.stop();
      const moved = path.join(top, "private", "moved");
      await rename(dataDir, moved);
      dataDir = moved;

      const second = await start();

      expect(await query(second, "select answer from kept")).toEqual([{ answer: 42 }]);
    });

    test("a copy of the folder is refused, whose original owns the cluster", async () => {
      await (await start()).stop();
      const copy = path.join(top, "private", "copy");
      await mkdir(copy);
      await writeFile(path.join(copy, "location.json"), await readFile(path.join(dataDir, "location.json")));

      await expect(start({ dataDir: copy })).rejects.toThrow(/is a copy of .* cannot be shared/);
    });

    test("a cluster that is gone is not silently begun anew", async () => {
      await (await start()).stop();
      await rm(await home(), { recursive: true });

      await expect(start()).rejects.toThrow(/was kept in .*, which is gone/);
    });
  });
