import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { promisify } from "node:util";

/**
 * Whom the programs of a worker that runs as root run as. Beyond the accounts of people, services and containers:
 * nothing else on the host is this user's.
 */
export const USER_INSTEAD_OF_ROOT = 64_747;

/**
 * Makes a session's folder that user's, where it is not yet: nothing of the session runs before its first sandbox, so
 * nobody can swap what is in there for links meanwhile; and links themselves are not followed.
 */
export async function giveFolder(folder: string, user: number): Promise<void> {
  if ((await stat(folder)).uid === user) return;
  await promisify(execFile)("chown", ["-R", "-P", "-h", `${user}:${user}`, "--", folder]);
}
