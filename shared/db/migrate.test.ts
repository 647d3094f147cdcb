import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../test/database.ts";
import { migrate } from "./migrate.ts";

let database: TestDatabase;
let directory: string;
beforeEach(async () => {
  database = await testDatabase();
  await database.pool.query("drop schema public cascade");
  await database.pool.query("create schema public");
  directory = await mkdtemp(path.join(tmpdir(), "mango-migrations-"));
});
afterEach(async () => {
  await database.close();
  await rm(directory, { recursive: true, force: true });
});

const write = (name: string, sql: string) => writeFile(path.join(directory, name), sql);
const run = () => migrate({ connectionString: database.connectionString, directory });
const tables = async () =>
  (
    await database.pool.query<{ tablename: string }>(
      "select tablename from pg_tables where schemaname = 'public' and tablename <> 'schema_migrations' order by tablename",
    )
  ).rows.map((row) => row.tablename);
const advisoryLocks = async () =>
  (
    await database.pool.query(
      "select * from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())",
    )
  ).rows;
/** Migrators that are in the middle of a migration which sleeps. */
const sleepers = async () =>
  (
    await database.pool.query(
      "select 1 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'",
    )
  ).rows.length;

test("runs what is new, in order, and says what it ran", async () => {
  await write("0001_first.sql", "create table first (id int primary key)");
  expect(await run()).toEqual(["0001_first"]);
  await write("0002_second.sql", "create table second (id int references first)");
  expect(await run()).toEqual(["0002_second"]);
  expect(await run()).toEqual([]);
  expect(await tables()).toEqual(["first", "second"]);
});

test("of several at once one runs each migration, and the others find nothing to do", async () => {
  await write("0001_first.sql", "create table first (id int)");
  await write("0002_second.sql", "insert into first values (1); create table second (id int)");

  const ran = await Promise.all([run(), run(), run(), run()]);

  expect(ran.toSorted((one, other) => other.length - one.length)).toEqual([["0001_first", "0002_second"], [], [], []]);
  expect((await database.pool.query("select id from first")).rows).toEqual([{ id: 1 }]);
});

test("a migration may take longer than the database lets a transaction wait for its next statement", async () => {
  const { rows } = await database.pool.query<{ name: string }>("select current_database() as name");
  await database.pool.query(`alter database ${rows[0]?.name} set idle_in_transaction_session_timeout = '200ms'`);
  await write("0001_first.sql", "create table first (id int); select pg_sleep(1)");
  await write("0002_second.sql", "create table second (id int)");

  expect(await run()).toEqual(["0001_first", "0002_second"]);
  expect(await tables()).toEqual(["first", "second"]);
});

test("F28: a migration that fails leaves neither half a schema nor a lock, and runs when it is mended", async () => {
  await write("0001_first.sql", "create table first (id int)");
  await write("0002_second.sql", "create table second (id int); select 1 / 0");

  await expect(run()).rejects.toThrow("division by zero");

  expect(await tables()).toEqual([]);
  expect(await advisoryLocks()).toEqual([]);
  await write("0002_second.sql", "create table second (id int)");
  expect(await run()).toEqual(["0001_first", "0002_second"]);
});

test("F28: a migrator that is cut off in the middle leaves no lock, and the next one does its work", async () => {
  await write("0001_first.sql", "create table first (id int); select pg_sleep(60)");
  const cutOff = run().catch((error: unknown) => error);
  await expect.poll(sleepers, { timeout: 15_000 }).toBe(1);
  expect(await advisoryLocks()).toHaveLength(1);
  await database.pool.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );

  expect(await cutOff).toBeInstanceOf(Error);
  await write("0001_first.sql", "create table first (id int)");

  expect(await run()).toEqual(["0001_first"]);
  expect(await advisoryLocks()).toEqual([]);
});
