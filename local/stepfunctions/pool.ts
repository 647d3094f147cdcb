import pg from "pg";

/**
 * A pool for the interpreter's own statements.
 *
 * They commit without waiting for the disk. A power failure may lose the last transitions, or a whole execution, and
 * loses nothing by it: the journal is the truth, a turn whose execution is gone is started again from it. A killed
 * process loses nothing at all, since PostgreSQL has the commit in its memory.
 */
export function createStepFunctionsPool(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 4, options: "-c synchronous_commit=off" });
  // A connection that breaks while idle is replaced at the next use; without a listener it would end the process.
  pool.on("error", () => undefined);
  // The same while it is checked out: whoever holds it gets the error from the query.
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}
