import { Signer } from "@aws-sdk/rds-signer";
import pg from "pg";
import type { Log } from "../ports/log.ts";

export interface AwsDatabaseOptions {
  /** RDS Proxy's endpoint. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  /** A role that has `rds_iam`. */
  readonly user: string;
  readonly region: string;
  /** Off only for an emulator, which has no certificate. */
  readonly tls: boolean;
  readonly log: Log;
}

/** Counts and ledger positions stay far below 2^53; the same choice as in `pool.ts`. */
const INT8 = 20;

const types: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format?: string) {
    if (oid === INT8 && format !== "binary") {
      return (text: string) => Number(text);
    }
    return pg.types.getTypeParser(oid, format as "text");
  },
};

/**
 * The database of one warm Lambda environment: one connection through RDS Proxy, which holds the real pool.
 *
 * No password exists. Each new connection asks for a token, signed on this machine with the function's own role and
 * good for 15 minutes; a connection outlives its token. The proxy's certificate is from Amazon's public authority,
 * which Node trusts. Like `createPool`, it survives its connection: a socket that died while the environment was frozen
 * reports here and is replaced.
 */
export function awsDatabase(options: AwsDatabaseOptions): pg.Pool {
  const { host, port, database, user, region, log } = options;
  const signer = new Signer({ hostname: host, port, username: user, region });
  const pool = new pg.Pool({
    host,
    port,
    database,
    user,
    password: () => signer.getAuthToken(),
    ssl: options.tls ? { rejectUnauthorized: true } : false,
    max: 1,
    types,
    connectionTimeoutMillis: 10_000,
    idleTimeoutMillis: 0,
    application_name: "mango",
  });
  pool.on("error", (error) => {
    log.warn("An idle database connection was lost and will be replaced.", { error: error.name });
  });
  return pool;
}
