import { describe, expect, test } from "vitest";
import { testDatabase } from "./database.ts";

describe("a test's database", () => {
  test("is apart from every other", async () => {
    const [one, two] = await Promise.all([testDatabase(), testDatabase()]);

    await one.pool.query("create table only_here (id int)");

    const found = await two.pool.query("select from pg_tables where tablename = 'only_here'");
    expect(found.rowCount).toBe(0);
    await Promise.all([one.close(), two.close()]);
  });

  test("holds the product's tables", async () => {
    const database = await testDatabase();

    const found = await database.pool.query("select from pg_tables where tablename = 'sessions'");

    expect(found.rowCount).toBe(1);
    await database.close();
  });

  test("reports a client that was not given back, and is dropped all the same", async () => {
    const [database, other] = await Promise.all([testDatabase(), testDatabase()]);
    const client = await database.pool.connect();
    client.on("error", () => {});
    const { rows } = await client.query("select current_database() as name");

    await expect(database.close()).rejects.toThrow("1 client(s) of the test database were not released");

    const left = await other.pool.query("select from pg_database where datname = $1", [rows[0].name]);
    expect(left.rowCount).toBe(0);
    await other.close();
  });
});
