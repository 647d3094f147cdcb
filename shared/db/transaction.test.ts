import { connect, createServer, type Socket } from "node:net";
import type pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createStepFunctionsPool } from "../../local/stepfunctions/pool.ts";
import { type TestDatabase, testDatabase } from "../../test/database.ts";
import { createPool } from "./pool.ts";
import { CommitUnknown, inTransaction, isDatabaseError, type Transaction } from "./transaction.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };
let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.close());
beforeEach(() => database.pool.query("create table marks (name text primary key)"));
afterEach(() => database.pool.query("drop table marks"));

const mark = (transaction: Transaction, name: string) =>
  transaction.query("insert into marks (name) values ($1)", [name]);
const marks = async () => (await database.pool.query("select name from marks order by name")).rows;

test("what was written is there when the work resolves, and gone when it rejects", async () => {
  await inTransaction(database.pool, (transaction) => mark(transaction, "kept"));
  const failed = inTransaction(database.pool, async (transaction) => {
    await mark(transaction, "dropped");
    throw new Error("changed my mind");
  });

  await expect(failed).rejects.toThrow("changed my mind");
  expect(await marks()).toEqual([{ name: "kept" }]);
});

test("on a saturated pool no transaction's statements fall into another one's (F29)", async () => {
  const pool = createPool({ connectionString: database.connectionString, max: 2, log: silent });
  const twoMarks = (n: number) =>
    inTransaction(pool, async (transaction) => {
      await mark(transaction, `${n} first`);
      await new Promise((resolve) => setImmediate(resolve));
      await mark(transaction, `${n} second`);
      if (n % 2 === 1) throw new Error("odd");
    });

  await Promise.allSettled(Array.from({ length: 10 }, (_, n) => twoMarks(n)));

  expect((await marks()).map(({ name }) => name)).toEqual([
    "0 first",
    "0 second",
    "2 first",
    "2 second",
    "4 first",
    "4 second",
    "6 first",
    "6 second",
    "8 first",
    "8 second",
  ]);
  await pool.end();
});

test("a refused statement is the error that the caller gets, and the connection is used again", async () => {
  const pool = createPool({ connectionString: database.connectionString, max: 1, log: silent });
  const failed = inTransaction(pool, async (transaction) => {
    await mark(transaction, "twice");
    await mark(transaction, "twice");
  });

  await expect(failed).rejects.toMatchObject({ code: "23505" });
  await inTransaction(pool, (transaction) => mark(transaction, "after"));
  expect(await marks()).toEqual([{ name: "after" }]);
  await pool.end();
});

test("an error that the commit itself reports is no CommitUnknown: nothing was written", async () => {
  await database.pool.query("alter table marks add parent text references marks deferrable initially deferred");
  const failed = inTransaction(database.pool, (transaction) =>
    transaction.query("insert into marks (name, parent) values ('child', 'nobody')"),
  );

  await expect(failed).rejects.toSatisfy(isDatabaseError);
  expect(await marks()).toEqual([]);
});

const pools: readonly [string, () => pg.Pool][] = [
  ["the product's", () => createPool({ connectionString: database.connectionString, max: 1, log: silent })],
  ["the state machine's", () => createStepFunctionsPool(database.connectionString)],
];

test.each(pools)("a backend that dies between two statements on %s pool rejects that call only", async (_, create) => {
  const pool = create();
  const failed = inTransaction(pool, async (transaction) => {
    await mark(transaction, "lost");
    await terminated(transaction);
    await mark(transaction, "never");
  });

  await expect(failed).rejects.toThrow();
  await inTransaction(pool, (transaction) => mark(transaction, "after"));
  expect(await marks()).toEqual([{ name: "after" }]);
  await pool.end();
});

test.each(pools)("a backend that dies during a statement on %s pool rejects that call only", async (_, create) => {
  const pool = create();
  const failed = inTransaction(pool, async (transaction) => {
    await mark(transaction, "lost");
    await transaction.query("select pg_terminate_backend(pg_backend_pid()), pg_sleep(60)");
  });

  await expect(failed).rejects.toThrow();
  await inTransaction(pool, (transaction) => mark(transaction, "after"));
  expect(await marks()).toEqual([{ name: "after" }]);
  await pool.end();
});

test.each(pools)("a backend that dies while its connection is idle on %s pool is replaced", async (_, create) => {
  const pool = create();
  const { pid, ended } = await inTransaction(pool, async (transaction) => ({
    pid: await pidOf(transaction),
    ended: end(transaction),
  }));
  await database.pool.query("select pg_terminate_backend($1)", [pid]);
  await ended;

  await inTransaction(pool, (transaction) => mark(transaction, "after"));

  expect(await marks()).toEqual([{ name: "after" }]);
  await pool.end();
});

test.each([
  ["before the server got it", false, []],
  ["after the server got it", true, [{ name: "maybe" }]],
] as const)("a connection that breaks with the commit, %s, is a CommitUnknown", async (_, delivered, expected) => {
  const proxy = await startCommitCutter(database.connectionString, { delivered });
  const pool = createPool({ connectionString: proxy.connectionString, max: 1, log: silent });

  const failed = await inTransaction(pool, (transaction) => mark(transaction, "maybe")).catch(
    (error: unknown) => error,
  );

  expect(failed).toBeInstanceOf(CommitUnknown);
  await proxy.serverIsDone;
  expect(await marks()).toEqual(expected);
  await pool.end();
  proxy.close();
});

async function pidOf(transaction: Transaction): Promise<number> {
  const { rows } = await transaction.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

/** Settles when the connection has ended. Listens to nothing else: who hears `error` would hide that nobody does. */
const end = (transaction: Transaction) =>
  new Promise<void>((resolve) => (transaction as unknown as pg.PoolClient).once("end", resolve));

async function terminated(transaction: Transaction): Promise<void> {
  const ended = end(transaction);
  await database.pool.query("select pg_terminate_backend($1)", [await pidOf(transaction)]);
  await ended;
}

/** A proxy that hangs up on the client at its first `commit`, which the server gets or does not get. */
async function startCommitCutter(connectionString: string, options: { readonly delivered: boolean }) {
  const target = new URL(connectionString);
  const done = Promise.withResolvers<void>();
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    const server = connect(Number(target.port), target.hostname);
    sockets.push(client, server);
    client.on("error", () => {});
    server.on("error", () => {});
    server.on("data", (bytes) => client.write(bytes));
    server.on("close", () => done.resolve());
    client.on("data", (bytes) => {
      if (!bytes.includes("commit\0")) {
        server.write(bytes);
      } else {
        if (options.delivered) server.write(bytes);
        client.destroy();
        // The server answers what it has got before it hangs up in its turn.
        server.end();
      }
    });
    client.on("close", () => server.end());
  });
  await new Promise<void>((listening) => proxy.listen(0, "127.0.0.1", listening));
  const address = new URL(connectionString);
  address.hostname = "127.0.0.1";
  address.port = String((proxy.address() as { port: number }).port);
  return {
    connectionString: address.href,
    serverIsDone: done.promise,
    close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
