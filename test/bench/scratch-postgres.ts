import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { startPostgres } from "../../local/postgres/postgres.ts";
import { removeFolder } from "../remove-folder.ts";

/** A durable PostgreSQL of the bench's own, in a folder that goes with it. */
export async function scratchPostgres(): Promise<{ connectionString: string; stop(): Promise<void> }> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "mango-bench-postgres-"));
  await chmod(dataDir, 0o711);
  const postgres = await startPostgres({ dataDir });
  return {
    connectionString: postgres.connectionString,
    async stop() {
      await postgres.stop();
      await removeFolder(dataDir);
    },
  };
}
