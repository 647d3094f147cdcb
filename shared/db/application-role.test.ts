import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../test/database.ts";
import { grantApplicationRole } from "./application-role.ts";

const role = `mango "app" ${process.pid}`;
let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await testDatabase();
  // Twice: every release does it again.
  await grantApplicationRole({ connectionString: database.connectionString, role });
  await grantApplicationRole({ connectionString: database.connectionString, role });
  client = new pg.Client({ connectionString: database.connectionString });
  await client.connect();
  await client.query(`set role ${pg.escapeIdentifier(role)}`);
});

afterAll(async () => {
  await client.end();
  await database.pool.query(`drop owned by ${pg.escapeIdentifier(role)}`);
  await database.pool.query(`drop role ${pg.escapeIdentifier(role)}`);
  await database.close();
});

test("the application's role reads and writes rows", async () => {
  await client.query("insert into workspaces (id, name) values ('wrkspc_1', 'one')");
  await client.query("update workspaces set name = 'two'");

  expect((await client.query("select name from workspaces")).rows).toEqual([{ name: "two" }]);
});

test.each([
  "create table mine (id text)",
  "alter table workspaces add column mine text",
  "truncate workspaces",
  "select * from schema_migrations",
])("and may not: %s", async (statement) => {
  await expect(client.query(statement)).rejects.toMatchObject({ code: "42501" });
});
