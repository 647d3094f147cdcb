import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type TestDatabase, testDatabase } from "../test/database.ts";
import { type RdsProxy, startRdsProxy } from "./testing/rds-proxy.ts";

/** A database whose migrations have run; where it is asked through `door`, it takes signed tokens only. */
let database: TestDatabase;
let door: RdsProxy;
let secrets: Server;
let handler: (event: unknown, context: unknown) => Promise<unknown>;
const ROLE = `mango_app_${process.pid}`;

const context = { functionName: "migrate", awsRequestId: "1", getRemainingTimeInMillis: () => 60_000 };

beforeAll(async () => {
  database = await testDatabase();
  door = await startRdsProxy(database.connectionString);
  const { hostname, pathname, port, username, password } = new URL(database.connectionString);
  secrets = createServer((_, response) => {
    response.setHeader("content-type", "application/x-amz-json-1.1");
    response.end(JSON.stringify({ SecretString: JSON.stringify({ username, password: password || "any" }) }));
  });
  secrets.listen(0, "127.0.0.1");
  await once(secrets, "listening");
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(secrets.address() as AddressInfo).port}`,
    MANGO_DATABASE_HOST: hostname,
    MANGO_DATABASE_PORT: port,
    MANGO_DATABASE_NAME: pathname.slice(1),
    MANGO_DATABASE_USER: ROLE,
    MANGO_DATABASE_TLS: "off",
    MANGO_DATABASE_SECRET_ARN: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:owner",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  ({ handler } = (await import("./migrate.lambda.ts")) as unknown as { handler: typeof handler });
});

afterAll(async () => {
  await database.pool.query(`drop owned by ${ROLE}`);
  await database.pool.query(`drop role ${ROLE}`);
  await door.close();
  await database.close();
  secrets.close();
  secrets.closeAllConnections();
});

test("the owner comes with its password", async () => {
  expect(await handler({ RequestType: "Create" }, context)).toEqual({ PhysicalResourceId: "schema" });
  expect(door.tokens).toEqual([]);
});

test("where the database takes none of it, the owner comes with a signed token", async () => {
  vi.stubEnv("MANGO_DATABASE_PORT", String(door.port));
  const { username } = new URL(database.connectionString);

  expect(await handler({ RequestType: "Update" }, context)).toEqual({ PhysicalResourceId: "schema" });
  expect(door.tokens.length).toBeGreaterThan(0);
  expect(new URL(`https://${door.tokens[0]}`).searchParams.get("DBUser")).toBe(username);
});

test("a database that is not there is an error at once, and no reason to try a token", async () => {
  vi.stubEnv("MANGO_DATABASE_PORT", "9");
  const shown = door.tokens.length;

  await expect(handler({ RequestType: "Update" }, context)).rejects.toThrow("The function's log says more.");
  expect(door.tokens).toHaveLength(shown);
});
