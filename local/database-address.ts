import { readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Settings } from "./settings.ts";

/**
 * Where operator commands find the database of a running server: the setting, or a file that the server leaves in its
 * data folder while it runs. The address holds the password; only the server's own user may read it.
 */
const FILE = "database-url";

/** Leaves the address; returns what removes it again. */
export async function leaveAddress(settings: Settings, connectionString: string): Promise<() => Promise<void>> {
  const file = path.join(settings.dataDir, FILE);
  await rm(file, { force: true });
  await writeFile(file, connectionString, { mode: 0o600 });
  return () => rm(file, { force: true });
}

/** The address of the running server's database; null when no server runs. */
export async function findAddress(settings: Settings): Promise<string | null> {
  return settings.databaseUrl ?? (await readFile(path.join(settings.dataDir, FILE), "utf8").catch(() => null));
}
