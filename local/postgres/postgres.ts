import pg from "pg";
import type { Log } from "../../shared/ports/log.ts";
import { installedBinaries, runnableBinaries } from "./binaries.ts";
import { ensureCluster, roleName } from "./cluster.ts";
import { homeOf } from "./home.ts";
import { stopOrphan } from "./orphan.ts";
import { PostgresError } from "./postgres-error.ts";
import { launch } from "./postmaster.ts";
import type { ServerSettings } from "./server-flags.ts";

export type StartPostgresOptions = Readonly<{
  /** The folder of this cluster alone, created if missing. The caller holds the claim on it (see `claimDataDir`). */
  dataDir: string;
  log?: Log;
  /** PostgreSQL settings over our own, by their PostgreSQL names. */
  settings?: ServerSettings;
}>;

export type EmbeddedPostgres = Readonly<{
  /** Address of the database `mango`, password included: not for logs. Good until `stop`, restarts included. */
  connectionString: string;
  /** Resolves when the server ended by itself and could not be brought back. Never rejects. */
  lost: Promise<PostgresError>;
  /** Ends the server and waits until no process of it is left. */
  stop(): Promise<void>;
}>;

/**
 * Starts the embedded PostgreSQL, making its cluster on first use and stopping what a killed run left behind. If the
 * server dies while we live it is started again on the same port: clients see broken connections, not another address.
 *
 * @throws PostgresError with a message that says what to do.
 */
export async function startPostgres(options: StartPostgresOptions): Promise<EmbeddedPostgres> {
  const { log, settings } = options;
  const home = await homeOf(options.dataDir, log);
  const binaries = await runnableBinaries(await installedBinaries(), home);
  const password = await ensureCluster(home, binaries, settings?.["fsync"] === "off");
  await stopOrphan(home.clusterDir, log);

  let stopping = false;
  let current = launch({ home, binaries, settings, log });
  const { port } = await current;
  const stop = async () => {
    stopping = true;
    await current.then((server) => server.stop()).catch(() => {});
  };
  const lost = (async () => {
    for (;;) {
      try {
        await (await current).ended;
      } catch (error) {
        return error instanceof PostgresError ? error : new PostgresError(String(error), { cause: error });
      }
      if (stopping) return new Promise<never>(() => {});
      log?.warn("PostgreSQL ended unexpectedly: starting it again");
      current = launch({ home, binaries, settings, log, port });
    }
  })();

  const address = (database: string) => `postgresql://${roleName}:${password}@127.0.0.1:${port}/${database}`;
  try {
    await ensureDatabase(address);
  } catch (error) {
    await stop();
    throw error;
  }
  return { connectionString: address(roleName), lost, stop };
}

/** A new cluster has only PostgreSQL's own databases. Asked at every start: the first may have ended in between. */
async function ensureDatabase(address: (database: string) => string): Promise<void> {
  const client = new pg.Client({ connectionString: address("postgres") });
  try {
    await client.connect();
    const { rowCount } = await client.query("select from pg_database where datname = $1", [roleName]);
    if (rowCount === 0) await client.query(`create database ${roleName}`);
  } catch (error) {
    throw new PostgresError(
      `The embedded PostgreSQL runs but refuses us (${(error as Error).message}): its password file does not fit its data.`,
      {
        cause: error,
      },
    );
  } finally {
    await client.end().catch(() => {});
  }
}
