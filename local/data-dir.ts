import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";

/** The data folder cannot be had: another server works in it, or it cannot be made. The message says what to do. */
export class DataDirError extends Error {
  override readonly name = "DataDirError";
}

export type DataDirClaim = Readonly<{
  /** Tells a second start where this server is to be found. */
  announce(address: string): Promise<void>;
  release(): Promise<void>;
}>;

/** What a claim says about its holder. `started` tells a process from a later one that was given the same number. */
type Holder = Readonly<{ pid: number; started: string; address?: string }>;

/**
 * Claims a data folder for this process, creating the folder if it is missing. One server at a time: two would run
 * every turn twice and stop each other's PostgreSQL.
 *
 * Each process writes a claim of its own name first and looks at the others' afterwards, so that of two at the same
 * instant at least one sees the other and gives way, and no claim is ever taken from a process that may be alive. What
 * a killed process left is removed. Processes of another container that mounts the same folder are not seen.
 *
 * @throws DataDirError naming the process and the address of the server that holds it.
 */
export async function claimDataDir(dir: string): Promise<DataDirClaim> {
  await makeDataDir(dir);
  const started = startOf(process.pid);
  if (started === undefined) throw new Error("The system does not tell when this process started.");
  const mine: Holder = { pid: process.pid, started };
  const file = path.join(dir, nameFor(process.pid));
  const own = await readHolder(file);
  if (own && isRunning(own)) throw inUse(dir, own);
  await write(file, mine).catch((cause: NodeJS.ErrnoException) => {
    throw new DataDirError(
      `The data folder ${dir} cannot be written to (${cause.code}): set MANGO_DATA_DIR to another.`,
      { cause },
    );
  });

  for (const name of await readdir(dir)) {
    const other = path.join(dir, name);
    if (other === file || !claimName.test(name)) continue;
    const holder = await readHolder(other);
    if (holder && isRunning(holder)) {
      await rm(file, { force: true });
      throw inUse(dir, holder);
    }
    await rm(other, { force: true });
  }
  return {
    announce: (address) => write(file, { ...mine, address }),
    release: () => rm(file, { force: true }),
  };
}

const claimName = /^server-\d+\.json$/;
const nameFor = (pid: number) => `server-${pid}.json`;

/**
 * Others may pass through but not list: as root PostgreSQL runs as another user, whose cluster lies in here. A folder
 * that exists keeps the rights its owner gave it.
 */
async function makeDataDir(dir: string): Promise<void> {
  const first = await mkdir(dir, { recursive: true }).catch((cause: NodeJS.ErrnoException) => {
    throw new DataDirError(`The data folder ${dir} cannot be made (${cause.code}): set MANGO_DATA_DIR to another.`, {
      cause,
    });
  });
  if (first !== undefined) await chmod(dir, process.getuid?.() === 0 ? 0o711 : 0o700);
}

/** Renamed into place: a reader meets a whole claim or none. */
async function write(file: string, holder: Holder): Promise<void> {
  await writeFile(`${file}.partial`, JSON.stringify(holder), { mode: 0o600 });
  await rename(`${file}.partial`, file);
}

async function readHolder(file: string): Promise<Holder | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as Holder;
  } catch {
    return undefined;
  }
}

function inUse(dir: string, holder: Holder): DataDirError {
  const where = holder.address ? ` at ${holder.address}` : "";
  return new DataDirError(
    `Mango already runs on ${dir}${where} (process ${holder.pid}): use that server, stop it first, or set MANGO_DATA_DIR and MANGO_PORT for a second one.`,
  );
}

const isRunning = (holder: Holder) => startOf(holder.pid) === holder.started;

/** When a process started, in whatever form the system tells it; nothing when there is no such process. */
function startOf(pid: number): string | undefined {
  return process.platform === "linux" ? startOnLinux(pid) : startElsewhere(pid);
}

/** Clock ticks since boot, with the boot they count from: a number alone repeats after a restart of the machine. */
function startOnLinux(pid: number): string | undefined {
  const stat = readText(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may hold anything, so fields are counted after it.
  const [state, ...fields] = stat?.slice(stat.lastIndexOf(")") + 2).split(" ") ?? [];
  const ticks = fields[18];
  // A zombie has ended; only its parent has not asked yet.
  if (!ticks || state === "Z" || state === "X") return undefined;
  return `${readText("/proc/sys/kernel/random/boot_id")?.trim()} ${ticks}`;
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

function startElsewhere(pid: number): string | undefined {
  const ps = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C", TZ: "UTC" },
  });
  return ps.stdout.trim() || undefined;
}
