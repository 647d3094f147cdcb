import path from "node:path";
import { createPool } from "../../shared/db/pool.ts";
import type { OperatorAnswer, OperatorRequest } from "../../shared/operator/commands.ts";
import { operate } from "../../shared/operator/operate.ts";
import { claimDataDir } from "../data-dir.ts";
import { findAddress } from "../database-address.ts";
import { localLog } from "../local-log.ts";
import type { Settings } from "../settings.ts";

/** On a database: the one that is set, the running server's, or the data folder's own, started for this once. */
export async function operateHere(settings: Settings, request: OperatorRequest): Promise<OperatorAnswer> {
  const address = await findAddress(settings);
  if (address !== null) {
    return onDatabase(address, request);
  }
  // Loaded only where it is needed: the command answers sooner.
  const { migrate } = await import("../../shared/db/migrate.ts");
  const { startPostgres } = await import("../postgres/postgres.ts");
  // Nobody else may start a server on the folder meanwhile.
  const claim = await claimDataDir(settings.dataDir);
  try {
    const postgres = await startPostgres({ dataDir: path.join(settings.dataDir, "postgres") });
    try {
      await migrate({ connectionString: postgres.connectionString });
      return await onDatabase(postgres.connectionString, request);
    } finally {
      await postgres.stop();
    }
  } finally {
    await claim.release();
  }
}

async function onDatabase(connectionString: string, request: OperatorRequest): Promise<OperatorAnswer> {
  const database = createPool({ connectionString, max: 1, log: localLog("text") });
  try {
    return await operate(database, request);
  } finally {
    await database.end();
  }
}
