import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createEnvironment } from "../shared/environments/environments.ts";
import { ensureWorkspace } from "../shared/workspaces/keys.ts";
import { type TestDatabase, testDatabase } from "../test/database.ts";
import { type LiveTables, liveTables } from "../test/live-table.ts";
import { type Quiet, quietMarker } from "./quiet.ts";
import { type RdsProxy, startRdsProxy } from "./testing/rds-proxy.ts";

/** What functions do where the database pauses; each test begins when all is quiet. */
let database: TestDatabase;
let proxy: RdsProxy;
/** The database's address: while it resumes it takes connections and says nothing. */
let address: Server;
let connections = 0;
/** How many connections it takes until it has resumed. */
let resuming = 0;
let tables: LiveTables;
let quiet: Quiet;
const clock = vi.useFakeTimers({ toFake: ["Date"] });
type Handler = (event: unknown, context: unknown) => Promise<unknown>;
let operator: Handler;
let relay: Handler;

const CONTEXT = { functionName: "test", awsRequestId: "1", getRemainingTimeInMillis: () => 60_000 };
const UPKEEP = { task: "upkeep" };

beforeAll(async () => {
  database = await testDatabase();
  proxy = await startRdsProxy(database.connectionString);
  address = createServer((socket: Socket) => {
    socket.on("error", () => {});
    connections += 1;
    if (connections > resuming) {
      const there = connect(proxy.port, "127.0.0.1").on("error", () => socket.destroy());
      socket.on("close", () => there.destroy());
      socket.pipe(there).pipe(socket);
    }
  }).listen(0, "127.0.0.1");
  await once(address, "listening");
  tables = await liveTables();
  const table = await tables.empty();
  quiet = quietMarker({ client: tables.client, table });
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_ENDPOINT_URL: tables.endpoint,
    MANGO_DATABASE_HOST: "127.0.0.1",
    MANGO_DATABASE_PORT: String((address.address() as AddressInfo).port),
    MANGO_DATABASE_NAME: "mango",
    MANGO_DATABASE_USER: "mango_app",
    MANGO_DATABASE_TLS: "off",
    MANGO_LIVE_TABLE: table,
    MANGO_RELAY_QUEUE_URL: "http://127.0.0.1:9/queue",
    MANGO_SCALE_TO_ZERO: "on",
    MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-test-turn",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  ({ handler: operator } = (await import("./operator.lambda.ts")) as unknown as { handler: Handler });
  ({ handler: relay } = (await import("./relay.lambda.ts")) as unknown as { handler: Handler });
});
afterAll(async () => {
  vi.useRealTimers();
  address.close();
  await proxy.close();
  await tables.close();
  await database.close();
});
beforeEach(async () => {
  connections = 0;
  resuming = 0;
  clock.setSystemTime(Date.now() + 60 * 60_000);
  expect(await quiet.isQuiet()).toBe(true);
});

test("an operator's command waits for a database that resumes, and is activity", async () => {
  resuming = 1;
  const command = { actor: "ann", request: { command: "workspace.create", name: "first" } };

  expect(await operator(command, CONTEXT)).toMatchObject({ result: { name: "first" } });

  expect(connections).toBe(2);
  expect(await quiet.isQuiet()).toBe(false);
});

test("an operator's command fails when its function has no more time, and before it did anything", async () => {
  resuming = 1;
  const command = { actor: "ann", request: { command: "workspace.create", name: "late" } };

  await expect(operator(command, { ...CONTEXT, getRemainingTimeInMillis: () => 15_000 })).rejects.toThrow();

  expect(connections).toBe(1);
  const { rows } = await database.pool.query("select 1 from workspaces where name = 'late'");
  expect(rows).toEqual([]);
});

test("the upkeep tells which environments' work is queued, and then leaves the database alone", async () => {
  await ensureWorkspace(database.pool, { id: "wrkspc_1", name: "one" });
  const environment = await createEnvironment(database.pool, "wrkspc_1", { name: "self-hosted" });
  for (const [id, state] of [
    ["work_1", "queued"],
    ["work_2", "queued"],
    ["work_3", "active"],
  ]) {
    await database.pool.query(
      `insert into work_items (id, workspace_id, environment_id, healthcheck_id, state, created_at, lease_expires_at)
       values ($1, 'wrkspc_1', $2, $1, $3, now(), now() + interval '1 hour')`,
      [id, environment.id, state],
    );
  }
  await quiet.note();
  clock.setSystemTime(Date.now() + 9 * 60_000);

  await relay(UPKEEP, CONTEXT);
  expect(await quiet.queued()).toEqual([environment.id]);
  const before = connections;
  clock.setSystemTime(Date.now() + 60_000);
  await relay(UPKEEP, CONTEXT);

  expect(connections).toBe(before);
  expect(await quiet.isQuiet()).toBe(true);
});

test("an upkeep that failed before all became quiet is made up for", async () => {
  await quiet.note();
  clock.setSystemTime(Date.now() + 10 * 60_000);
  expect(await quiet.queued()).toBeNull();

  await relay(UPKEEP, CONTEXT);

  expect(await quiet.queued()).not.toBeNull();
  expect(await quiet.isQuiet()).toBe(true);
});
