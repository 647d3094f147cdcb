import { randomUUID } from "node:crypto";
import { mkdir, open, realpath, rename, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * Replaces a file in one step: a temporary sibling, synced, then renamed over it. Missing directories are made, owner
 * only; a new file is 0600, an existing one keeps its mode.
 */
export async function atomicWrite(path: string, content: string): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  // The path was free of links when it was checked; if that has changed, the parent now leads elsewhere.
  if ((await realpath(directory)) !== directory) throw Object.assign(new Error("moved"), { code: "ELOOP" });

  const mode = await stat(path).then(
    (existing) => existing.mode & 0o777,
    () => null,
  );
  const temporary = join(directory, `.tmp-${randomUUID()}`);
  const file = await open(temporary, "wx", 0o600);
  try {
    try {
      if (mode !== null) await file.chmod(mode);
      await file.writeFile(content, "utf8");
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => {});
    throw error;
  }
}
