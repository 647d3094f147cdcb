import pg from "pg";

/** A connection inside a transaction. Statements are unnamed and parametrised: a named one pins RDS Proxy. */
export interface Transaction {
  query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<pg.QueryResult<Row>>;
}

/** Anything that runs one statement outside a transaction: the pool. */
export interface Database extends Transaction {
  connect(): Promise<pg.PoolClient>;
}

/**
 * Runs `work` in one transaction on one checked-out client: the only way to write several statements. (A `begin` sent
 * to a pool may land on another connection than the next statement.)
 *
 * Commits when `work` resolves, rolls back when it rejects. A client that failed to roll back is destroyed, not
 * returned. When the connection breaks during `commit`, the outcome is unknown: that error is `CommitUnknown`.
 */
export async function inTransaction<T>(database: Database, work: (transaction: Transaction) => Promise<T>): Promise<T> {
  const client = await database.connect();
  let broken: Error | undefined;
  try {
    await client.query("begin");
    const result = await work(client as Transaction);
    try {
      await client.query("commit");
    } catch (error) {
      throw isDatabaseError(error) ? error : new CommitUnknown(error);
    }
    return result;
  } catch (error) {
    try {
      await client.query("rollback");
    } catch (rollbackError) {
      broken = rollbackError as Error;
    }
    throw error;
  } finally {
    client.release(broken);
  }
}

/** The connection broke while committing: the transaction may or may not have taken effect. */
export class CommitUnknown extends Error {
  override readonly name = "CommitUnknown";
  constructor(cause: unknown) {
    super("The database connection was lost during the commit; its outcome is unknown.", { cause });
  }
}

/** An error that the server reported (it carries a five-character SQLSTATE), as opposed to a lost connection. */
export function isDatabaseError(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError;
}
