import { spawnSync } from "node:child_process";
import { stat } from "node:fs/promises";
import { bringYourOwn, PostgresError } from "./postgres-error.ts";

/**
 * Who runs PostgreSQL. It refuses to run as root, so root lends it an unprivileged user; everyone else runs it
 * themselves (`undefined`: whatever this process is).
 */
export type ServiceUser = Readonly<{ uid: number; gid: number }> | undefined;

/**
 * The user for a cluster at `clusterDir`, which may not exist yet. An existing cluster stays with its owner: PostgreSQL
 * insists on that, and the machine's users may have changed since.
 */
export async function serviceUserOf(clusterDir: string): Promise<ServiceUser> {
  const me = process.getuid?.();
  const owner = await stat(clusterDir).catch(() => undefined);
  if (me !== 0) {
    if (owner && me !== undefined && owner.uid !== me)
      throw new PostgresError(
        `The database in ${clusterDir} belongs to another user (uid ${owner.uid}): start Mango as that user, or point MANGO_DATA_DIR elsewhere.`,
      );
    return undefined;
  }
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  const found = lookUp("postgres") ?? lookUp("nobody");
  if (!found)
    throw new PostgresError(
      `PostgreSQL refuses to run as root, and this machine has neither a user "postgres" nor "nobody": start Mango as an ordinary user, or ${bringYourOwn}.`,
    );
  return found;
}

function lookUp(name: string): ServiceUser {
  const [uid, gid] = ["-u", "-g"].map((flag) => {
    const answer = spawnSync("id", [flag, name], { encoding: "utf8" });
    return answer.status === 0 ? Number.parseInt(answer.stdout, 10) : Number.NaN;
  });
  return uid && gid ? { uid, gid } : undefined;
}

/** The spawn options that make a child run as the user, from a working directory that every user can enter. */
export function runAs(user: ServiceUser): { uid?: number; gid?: number; cwd: string } {
  return { ...user, cwd: "/" };
}
