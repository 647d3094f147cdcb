import { Signer } from "@aws-sdk/rds-signer";
import pg from "pg";
import type { Log } from "../ports/log.ts";
import { types } from "./pool.ts";
import { type Database, isDatabaseError } from "./transaction.ts";

export interface AwsDatabaseOptions {
  /** RDS Proxy's endpoint, or the cluster's own. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  /** A role that has `rds_iam`. */
  readonly user: string;
  readonly region: string;
  /** Off only for an emulator, which has no certificate. */
  readonly tls: boolean;
  /** How long a connection may take, in milliseconds; then whoever asked for it is refused, before any write. */
  readonly connectMs: number;
  readonly log: Log;
}

/** Shorter than anything that closes a connection in silence; longer than the gap between two statements of a turn. */
const QUIET_MS = 5000;
const PING_MS = 2000;

export interface AwsDatabase extends Database {
  /** Says that the environment may be frozen from here on: the connection is not trusted before it has answered. */
  rest(): void;
  /** Gives the connection up; the next statement makes a new one. */
  disconnect(): Promise<void>;
  end(): Promise<void>;
}

/**
 * The database of one warm Lambda environment: one connection, through RDS Proxy, which holds the real pool.
 *
 * No password exists. Each new connection asks for a token, signed on this machine with the function's own role and
 * good for 15 minutes; a connection outlives its token. The proxy's certificate is from Amazon's public authority,
 * which Node trusts.
 *
 * Between two invocations the environment is frozen, network and all. A connection that was lost meanwhile looks alive
 * until something is sent: its end, too, is read only then. So the first statement after a rest, or after a long
 * silence, is a question (one round trip, about a millisecond), and a connection that does not answer is replaced.
 */
export function awsDatabase(options: AwsDatabaseOptions): AwsDatabase {
  const { log } = options;
  let pool = poolOf(options);
  let lastUse = 0;
  const used = () => {
    lastUse = Date.now();
  };
  const listen = () => {
    pool.on("error", (error) => {
      log.warn("An idle database connection was lost and will be replaced.", { error: error.name });
    });
    pool.on("connect", (client) => {
      used();
      // The pool listens only while a client is idle; an unheard `error` of one in use would end the process. Whoever
      // uses it is told by its statement.
      client.on("error", () => {});
    });
    pool.on("release", used);
  };
  listen();

  async function connect(): Promise<pg.PoolClient> {
    const client = await pool.connect();
    if (Date.now() - lastUse < QUIET_MS || (await answers(client))) {
      return client;
    }
    log.info("A database connection did not survive the pause and is replaced.");
    client.release(true);
    return pool.connect();
  }

  return {
    connect,
    async query<Row extends pg.QueryResultRow>(text: string, values?: readonly unknown[]) {
      const client = await connect();
      let broken = false;
      try {
        return await client.query<Row>(text, values as unknown[] | undefined);
      } catch (error) {
        broken = !isDatabaseError(error);
        throw error;
      } finally {
        client.release(broken);
      }
    },
    rest() {
      lastUse = 0;
    },
    async disconnect() {
      if (pool.totalCount > 0) {
        const before = pool;
        pool = poolOf(options);
        listen();
        await before.end();
      }
    },
    end: () => pool.end(),
  };
}

function poolOf({ host, port, database, user, region, tls, connectMs }: AwsDatabaseOptions): pg.Pool {
  const signer = new Signer({ hostname: host, port, username: user, region });
  return new pg.Pool({
    host,
    port,
    database,
    user,
    password: () => signer.getAuthToken(),
    ssl: tls ? { rejectUnauthorized: true } : false,
    max: 1,
    types,
    connectionTimeoutMillis: connectMs,
    idleTimeoutMillis: 0,
    application_name: "mango",
  });
}

async function answers(client: pg.PoolClient): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), PING_MS);
  });
  const answer = client.query("select 1").then(
    () => true,
    () => false,
  );
  try {
    return await Promise.race([answer, silence]);
  } finally {
    clearTimeout(timer);
  }
}
