import { fileURLToPath } from "node:url";
import { runner } from "node-pg-migrate";
import pg from "pg";
import type { Log } from "../ports/log.ts";

/** "mango" as a number: the advisory lock that serialises migrators. Never change it. */
const MIGRATION_LOCK = 470_113_101;

export interface MigrateOptions {
  /** A role that may create tables; on AWS the writer endpoint itself, never the proxy. */
  readonly connectionString: string;
  /** Where the .sql files lie; by default beside this file. */
  readonly directory?: string;
  readonly log?: Log;
}

/**
 * Brings the database to the newest schema and returns the names of the migrations that it ran.
 *
 * Two migrators may start at once. The library's own lock is a session lock, which a crashed or pooled connection
 * leaks (goauthentik/authentik#23876), so it is off; a transaction of a second connection holds
 * `pg_advisory_xact_lock` for as long as the migrations run, and the server drops it whatever happens to us.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const guard = new pg.Client({ connectionString: options.connectionString });
  const worker = new pg.Client({ connectionString: options.connectionString });
  // A connection that is lost says so here as well as in its query; unheard it would end the process.
  worker.on("error", () => {});
  // Without the lock nothing more may be migrated.
  guard.on("error", () => void worker.end().catch(() => {}));
  await guard.connect();
  try {
    await guard.query("begin");
    // It waits for as long as the migrations take; the cluster ends what waits for 30 s.
    await guard.query("set local idle_in_transaction_session_timeout = 0");
    await guard.query("select pg_advisory_xact_lock($1)", [MIGRATION_LOCK]);
    await worker.connect();
    const ran = await runner({
      dbClient: worker,
      dir: options.directory ?? fileURLToPath(new URL("./migrations", import.meta.url)),
      direction: "up",
      migrationsTable: "schema_migrations",
      noLock: true,
      singleTransaction: true,
      checkOrder: true,
      logger: {
        debug() {},
        info() {},
        warn: (text) => options.log?.warn(text),
        error: (text) => options.log?.error(text),
      },
    });
    return ran.map((migration) => migration.name);
  } finally {
    await worker.end().catch(() => {});
    await guard.end().catch(() => {});
  }
}
