import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import type { Binaries } from "./binaries.ts";
import { isErrno } from "./errno.ts";
import type { Home } from "./home.ts";
import { bringYourOwn, PostgresError } from "./postgres-error.ts";
import { runAs, type ServiceUser } from "./service-user.ts";

/** The one role of an embedded cluster, and its database. */
export const roleName = "mango";

/**
 * What PostgreSQL's programs get to see of the environment. Not our own: that holds keys, and `PG*` variables of a
 * developer's shell would reach the server.
 */
export const programEnvironment = { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" };

/**
 * Makes the cluster on first use and returns the password of its role. Built beside its place and renamed, so that a
 * kill half way leaves nothing that looks like a cluster. `quick` skips the final flush to disk, for tests.
 */
export async function ensureCluster(home: Home, binaries: Binaries, quick: boolean): Promise<string> {
  const passwordFile = path.join(home.dir, "password");
  const version = await readFile(path.join(home.clusterDir, "PG_VERSION"), "utf8").catch((error: unknown) => {
    if (isErrno(error, "ENOENT")) return undefined;
    throw error;
  });
  if (version === undefined) await createCluster(home, binaries, passwordFile, quick);
  else refuseOtherMajor(version.trim(), binaries, home);
  return readPassword(passwordFile);
}

async function createCluster(home: Home, binaries: Binaries, passwordFile: string, quick: boolean): Promise<void> {
  const partial = `${home.clusterDir}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { mode: 0o700 });
  await writeFile(passwordFile, randomBytes(24).toString("base64url"), { mode: 0o600 });
  await own(partial, home.user);
  await own(passwordFile, home.user);
  const choices = [
    // Byte order and Unicode classes that no library update can change under an index.
    ...["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
    // Other users of the machine reach the port too: nobody enters without the password.
    ...["--auth=scram-sha-256", `--username=${roleName}`, `--pwfile=${passwordFile}`],
    ...["--no-instructions", ...(quick ? ["--no-sync"] : [])],
  ];
  await promisify(execFile)(path.join(binaries.dir, "bin", "initdb"), [`--pgdata=${partial}`, ...choices], {
    ...runAs(home.user),
    env: programEnvironment,
  }).catch((error: { stderr?: string; message: string }) => {
    const reason = error.stderr?.trim().split("\n")[0] ?? error.message;
    // Containers are often run under a number that has no entry; PostgreSQL's programs insist on a name.
    const remedy = /could not look up effective user/.test(reason)
      ? "give that user a name in /etc/passwd"
      : "remove the cause";
    throw new PostgresError(
      `The database could not be created in ${home.dir} (${reason}): ${remedy}, or ${bringYourOwn}.`,
    );
  });
  await rename(partial, home.clusterDir);
}

/** A cluster's files belong to one major version, and npm brings no tool to convert them. */
function refuseOtherMajor(version: string, binaries: Binaries, home: Home): void {
  const major = binaries.version.split(".")[0];
  if (version !== major)
    throw new PostgresError(
      `The database in ${home.clusterDir} was made by PostgreSQL ${version}, and this release of Mango brings ${major}: start the release that made it, or choose another MANGO_DATA_DIR.`,
    );
}

async function readPassword(file: string): Promise<string> {
  return readFile(file, "utf8").catch((error: unknown) => {
    if (!isErrno(error, "ENOENT")) throw error;
    throw new PostgresError(`The database's password is missing: restore ${file}, or choose another MANGO_DATA_DIR.`);
  });
}

async function own(file: string, user: ServiceUser): Promise<void> {
  if (user) await chown(file, user.uid, user.gid);
}
