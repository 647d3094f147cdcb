import pg from "pg";
import type { Log } from "../ports/log.ts";

/** Counts and ledger positions stay far below 2^53, so int8 is read as a number rather than as pg's string. */
const INT8 = 20;

/** How values are read from the wire. */
export const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format?: string) {
    if (oid === INT8 && format !== "binary") {
      return (text: string) => Number(text);
    }
    return pg.types.getTypeParser(oid, format as "text");
  },
};

export interface PoolOptions {
  readonly connectionString: string;
  /** Most connections held at once. A Lambda needs one, a server a few more than it has cores. */
  readonly max: number;
  readonly log: Log;
}

/**
 * A pool that survives its connections: a backend that was terminated, or a socket that died while a Lambda was
 * frozen, reports here (an unheard `error` event would end the process; brianc/node-postgres#2112) and is replaced.
 */
export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.max,
    types,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 0,
    application_name: "mango",
  });
  // A connection that breaks while it is checked out says so on the client; whoever holds it gets the error from its query.
  pool.on("connect", (client) => {
    client.on("error", () => {});
  });
  pool.on("error", (error) => {
    // `end` does not wait for its connections to close: what a stopping server says to them is no loss.
    if (pool.ending) {
      return;
    }
    options.log.warn("An idle database connection was lost and will be replaced.", { error: error.name });
  });
  return pool;
}
