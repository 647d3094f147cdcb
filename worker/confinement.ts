import { lstat, readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";

/** Linux's own limit, at which `realpath` reports ELOOP. */
const MAX_LINKS = 40;

/** A path that leads out of the workspace. The message quotes the path as it was given, never where it leads. */
export class OutsideWorkspace extends Error {
  constructor(given: string) {
    super(`path ${JSON.stringify(given)} is outside the session's working directory`);
  }
}

/**
 * The real path of `given`, which may be absolute or relative to `root`, provided that it lies in `root`.
 *
 * Every link on the way is followed, the last component and dangling ones included, before the check; the caller then
 * works on the returned path. A component swapped for a link between the check and the use is not caught: Node has no
 * `openat`. That is the launcher's business, since whoever could swap it runs commands anyway.
 */
export async function confine(root: string, given: string): Promise<string> {
  const realRoot = await realpath(root);
  const real = await canonicalise(resolve(realRoot, given));
  if (!isWithin(realRoot, real)) throw new OutsideWorkspace(given);
  return real;
}

export function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

/**
 * The real path of the longest part that exists, with the rest appended. A component that is a link to something
 * missing is replaced by its target rather than appended, or a dangling link could smuggle a new file out.
 */
export async function canonicalise(path: string): Promise<string> {
  const missing: string[] = [];
  let existing = path;
  let links = 0;
  for (;;) {
    const real = await realpath(existing).catch((error: NodeJS.ErrnoException) => error);
    if (typeof real === "string") return join(real, ...missing.reverse());

    const stat = await lstat(existing).catch((error: NodeJS.ErrnoException) => error);
    if (!(stat instanceof Error)) {
      if (!stat.isSymbolicLink()) throw real;
      links += 1;
      if (links > MAX_LINKS) throw Object.assign(new Error("too many links"), { code: "ELOOP" });
      const parent = await realpath(dirname(existing));
      existing = resolve(parent, await readlink(existing), ...missing.splice(0).reverse());
      continue;
    }
    const parent = dirname(existing);
    if ((stat.code !== "ENOENT" && stat.code !== "ENOTDIR") || parent === existing) throw stat;
    missing.push(basename(existing));
    existing = parent;
  }
}
