import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, realpath, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Log } from "../../shared/ports/log.ts";
import { isErrno } from "./errno.ts";
import { bringYourOwn, PostgresError } from "./postgres-error.ts";
import { runAs, type ServiceUser, serviceUserOf } from "./service-user.ts";

/** Where one cluster and what belongs to it live, and who runs it. */
export type Home = Readonly<{ dir: string; clusterDir: string; user: ServiceUser }>;

/**
 * Folders for the clusters of data folders that the service user cannot enter. Both outlive a reboot, which the
 * system's temporary folder need not.
 */
const elsewhere = ["/var/lib/mango", "/var/tmp/mango"];

/** In the data folder: names the home when that is not the data folder itself. */
const pointerFile = "location.json";
/** In a home elsewhere: names the data folder it belongs to, for an operator and against copies of a data folder. */
const originFile = "origin";

const clusterIn = (dir: string) => path.join(dir, "cluster");

/**
 * Finds the home of the cluster of `dataDir`, or chooses one. It is the data folder wherever PostgreSQL's user can
 * enter it; a clone under /root is the usual case where it cannot.
 */
export async function homeOf(dataDir: string, log?: Log): Promise<Home> {
  await makeEnterable(dataDir);
  const pointed = await readPointer(dataDir);
  const dir = pointed ?? dataDir;
  const user = await serviceUserOf(clusterIn(dir));
  if (canEnter(dir, user)) return { dir, clusterDir: clusterIn(dir), user };
  if (pointed || (await exists(clusterIn(dir))))
    throw new PostgresError(
      `The user that runs PostgreSQL (uid ${user?.uid}) can no longer enter ${dir}: make that folder and those above it enterable (chmod o+x), or ${bringYourOwn}.`,
    );

  const moved = await chooseElsewhere(dataDir, user);
  await writeFile(path.join(moved, originFile), `${await realpath(dataDir)}\n`);
  await writeFile(path.join(dataDir, pointerFile), `${JSON.stringify({ home: moved })}\n`);
  log?.info(
    `PostgreSQL cannot run as root, and its user cannot enter ${dataDir}: the database of this folder is kept in ${moved}`,
  );
  return { dir: moved, clusterDir: clusterIn(moved), user };
}

async function readPointer(dataDir: string): Promise<string | undefined> {
  const file = path.join(dataDir, pointerFile);
  const text = await readFile(file, "utf8").catch((error: unknown) => {
    if (isErrno(error, "ENOENT")) return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const { home } = JSON.parse(text) as { home: string };
  const origin = await readFile(path.join(home, originFile), "utf8").catch(() => undefined);
  if (origin === undefined)
    throw new PostgresError(
      `The database of ${dataDir} was kept in ${home}, which is gone: restore that folder, or remove ${file} to begin with an empty database.`,
    );
  // A copied data folder points at the original's cluster: two servers would share, and stop, one PostgreSQL.
  const here = await realpath(dataDir);
  const there = origin.trim();
  if (there !== here && (await exists(path.join(there, pointerFile))))
    throw new PostgresError(
      `${dataDir} is a copy of ${there}, whose database in ${home} cannot be shared: remove ${file} to begin with an empty database.`,
    );
  if (there !== here) await writeFile(path.join(home, originFile), `${here}\n`);
  return home;
}

async function chooseElsewhere(dataDir: string, user: ServiceUser): Promise<string> {
  // The cluster of a folder that is temporary itself, a test's say, must not outlive it.
  const temporary = await realpath(tmpdir());
  if ((await realpath(dataDir)).startsWith(temporary + path.sep) && canEnter(temporary, user))
    return makeHome(temporary, "mango-cluster-");

  const base = await folderElsewhere(user);
  if (base) return makeHome(base, "cluster-");
  throw new PostgresError(
    `PostgreSQL cannot run as root, its user cannot enter ${dataDir}, and neither ${elsewhere.join(" nor ")} can be made: move the clone out of the private folder, or ${bringYourOwn}.`,
  );
}

/** A folder of ours outside of the project, made if missing, which root owns and the service user can enter. */
async function folderElsewhere(user: ServiceUser): Promise<string | undefined> {
  for (const base of elsewhere) {
    try {
      await makeEnterable(base);
      // The second one has a parent that anyone may write to: what somebody else put there is not ours.
      const { uid, mode } = await stat(base);
      if (uid === 0 && !(mode & 0o022) && canEnter(base, user)) return base;
    } catch (error) {
      if (!isErrno(error, "EACCES", "EPERM", "EROFS", "ENOTDIR", "ENOENT")) throw error;
    }
  }
  return undefined;
}

/** Where a copy of the binaries belongs: root keeps one for all clusters of the machine, others one per cluster. */
export async function folderForBinaries(home: Home): Promise<string> {
  return (home.user && (await folderElsewhere(home.user))) ?? home.dir;
}

async function makeHome(base: string, prefix: string): Promise<string> {
  const dir = await mkdtemp(path.join(base, prefix));
  await chmod(dir, 0o711);
  return dir;
}

/** Creates a folder that others may enter but not list; a folder that exists keeps the rights its owner gave it. */
async function makeEnterable(dir: string): Promise<void> {
  const first = await mkdir(dir, { recursive: true });
  if (first === undefined) return;
  for (let made = dir; made.length >= first.length; made = path.dirname(made)) await chmod(made, 0o711);
}

function canEnter(dir: string, user: ServiceUser): boolean {
  return !user || spawnSync("/bin/sh", ["-c", 'cd "$1"', "sh", dir], runAs(user)).status === 0;
}

async function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  );
}
