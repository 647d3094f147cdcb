import pg from "pg";
import { inject } from "vitest";
import { createPool } from "../shared/db/pool.ts";
import type { Log } from "../shared/ports/log.ts";
import "./postgres-global-setup.ts";

/** A database of one test's own, and a pool on it. */
export type TestDatabase = Readonly<{ connectionString: string; pool: pg.Pool; close(): Promise<void> }>;

let created = 0;

/** Dropping a database cuts off whoever is still connected; that leak is reported by `close`, not by the pool. */
const unheard: Log = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * A fresh database with the product's tables and nothing in them: cloned from the run's template, which takes some
 * tens of milliseconds. `close` drops it, and throws when the test has not given back every client of the pool.
 */
export async function testDatabase(): Promise<TestDatabase> {
  const server = inject("testServer");
  const name = `test_${process.pid}_${++created}`;
  // Copying files is cheaper than logging every page of the copy, as the default strategy would.
  await administer(server.connectionString, `create database ${name} template ${server.template} strategy file_copy`);

  const address = new URL(server.connectionString);
  address.pathname = name;
  const pool = createPool({ connectionString: address.href, max: 10, log: unheard });
  return {
    connectionString: address.href,
    pool,
    async close() {
      const leaked = pool.totalCount - pool.idleCount;
      const ended = pool.end();
      if (leaked === 0) await ended;
      await administer(server.connectionString, `drop database if exists ${name} with (force)`);
      if (leaked > 0) throw new Error(`${leaked} client(s) of the test database were not released to the pool`);
    },
  };
}

async function administer(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
