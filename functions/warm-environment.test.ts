import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type TestDatabase, testDatabase } from "../test/database.ts";
import { type RdsProxy, startRdsProxy } from "./testing/rds-proxy.ts";

/** One environment of a function: its module is loaded once, and every test is another invocation. */
let database: TestDatabase;
let proxy: RdsProxy;
/** Time passes when a test says so; timers run as ever. */
const clock = vi.useFakeTimers({ toFake: ["Date"] });
let handler: (input: unknown, context: unknown) => Promise<unknown>;

const context = { functionName: "hibernate", awsRequestId: "1", getRemainingTimeInMillis: () => 60_000 };
const UNKNOWN_TURN = { turnId: "turn_unknown", segment: 1 };
const STOPPED = { turnId: "turn_unknown", segment: 1, run: [], round: 0, next: "stop" };

beforeAll(async () => {
  database = await testDatabase();
  proxy = await startRdsProxy(database.connectionString);
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    MANGO_DATABASE_HOST: "127.0.0.1",
    MANGO_DATABASE_PORT: String(proxy.port),
    MANGO_DATABASE_NAME: "mango",
    MANGO_DATABASE_USER: "mango_app",
    MANGO_DATABASE_TLS: "off",
    MANGO_LIVE_TABLE: "live",
    MANGO_RELAY_QUEUE_URL: "http://127.0.0.1:9/queue",
    MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-test-turn",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  ({ handler } = (await import("./hibernate.lambda.ts")) as unknown as { handler: typeof handler });
});

afterAll(async () => {
  const { product } = await import("./product.ts");
  await product().database.end();
  await proxy.close();
  await database.close();
  vi.useRealTimers();
});

test("an invocation reaches the database with a signed token of its own role", async () => {
  expect(await handler(UNKNOWN_TURN, context)).toEqual(STOPPED);

  const token = new URL(`https://${proxy.tokens[0]}`);
  expect(token.host).toBe(`127.0.0.1:${proxy.port}`);
  expect(Object.fromEntries(token.searchParams)).toMatchObject({
    Action: "connect",
    DBUser: "mango_app",
    "X-Amz-Expires": "900",
  });
});

test("the next invocation has the same connection", async () => {
  const before = proxy.tokens.length;

  await handler(UNKNOWN_TURN, context);

  expect(proxy.tokens).toHaveLength(before);
});

test("an invocation succeeds although its connection was closed a moment ago", async () => {
  await handler(UNKNOWN_TURN, context);
  const before = proxy.tokens.length;

  proxy.cut();

  expect(await handler(UNKNOWN_TURN, context)).toEqual(STOPPED);
  expect(proxy.tokens).toHaveLength(before + 1);
});

test("an invocation succeeds although its connection was lost in silence while the environment was frozen", async () => {
  await handler(UNKNOWN_TURN, context);
  const before = proxy.tokens.length;

  // Nothing is heard of the loss: the proxy keeps the connection and answers no more.
  proxy.forget();
  clock.setSystemTime(Date.now() + 60_000);

  expect(await handler(UNKNOWN_TURN, context)).toEqual(STOPPED);
  expect(proxy.tokens).toHaveLength(before + 1);
});

test("a connection that survived the pause is used again", async () => {
  await handler(UNKNOWN_TURN, context);
  const before = proxy.tokens.length;

  clock.setSystemTime(Date.now() + 60_000);
  await handler(UNKNOWN_TURN, context);

  expect(proxy.tokens).toHaveLength(before);
});

test("a connection that is cut in the middle of an invocation fails that one only, and names no text", async () => {
  const other = await database.pool.connect();
  await other.query("begin");
  await other.query("lock table sessions, turns in access exclusive mode");
  const cut = handler(UNKNOWN_TURN, context).catch((error: Error) => error.message);
  const waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  await vi.waitUntil(async () => (await database.pool.query(waiting)).rowCount === 1, { timeout: 10_000 });
  proxy.cut();

  expect(await cut).toBe("The function's log says more.");
  await other.query("rollback");
  other.release();
  expect(await handler(UNKNOWN_TURN, context)).toEqual(STOPPED);
});

test("ledger positions are numbers, as in the embedded edition", async () => {
  const { product } = await import("./product.ts");

  const { rows } = await product().database.query("select 9007199254740991::int8 as seq");

  expect(rows).toEqual([{ seq: 9_007_199_254_740_991 }]);
});
