import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { ModelAborted, ModelError } from "../shared/model/model.ts";
import { answers, type ByHand, type HandSession, startByHand, text } from "../test/faults/by-hand.ts";
import { type RdsProxy, startRdsProxy } from "./testing/rds-proxy.ts";

/** The functions' figures, as CloudWatch reads them off the log. */
let hand: ByHand;
let proxy: RdsProxy;
let session: HandSession;
let ref: { turnId: string; segment: number };
const lines = vi.spyOn(console, "log");

type Handler = (input: unknown, context: unknown) => Promise<unknown>;
let callModel: Handler;
let completeTurn: Handler;
let failTurn: Handler;
let relay: Handler;

const contextOf = (remainingMs: number) => ({
  functionName: "test",
  awsRequestId: "1",
  getRemainingTimeInMillis: () => remainingMs,
});
const context = contextOf(900_000);

beforeAll(async () => {
  hand = await startByHand();
  proxy = await startRdsProxy(hand.database.connectionString);
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    // Nobody listens there.
    AWS_ENDPOINT_URL: "http://127.0.0.1:9",
    MANGO_DATABASE_HOST: "127.0.0.1",
    MANGO_DATABASE_PORT: String(proxy.port),
    MANGO_DATABASE_NAME: "mango",
    MANGO_DATABASE_USER: "mango_app",
    MANGO_DATABASE_TLS: "off",
    MANGO_LIVE_TABLE: "live",
    MANGO_RELAY_QUEUE_URL: "http://127.0.0.1:9/queue",
    MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-test-turn",
    POWERTOOLS_LOG_LEVEL: "SILENT",
    POWERTOOLS_METRICS_DISABLED: "false",
    POWERTOOLS_METRICS_NAMESPACE: "Mango",
    // Metrics go to the console that tests can listen to.
    POWERTOOLS_DEV: "true",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  vi.doMock("./configured-model.ts", () => ({ configuredModel: async () => hand.product.model }));
  const load = async (module: Promise<{ readonly handler: unknown }>) => (await module).handler as Handler;
  callModel = await load(import("./call-model.lambda.ts"));
  completeTurn = await load(import("./complete-turn.lambda.ts"));
  failTurn = await load(import("./fail-turn.lambda.ts"));
  relay = await load(import("./relay.lambda.ts"));
});
afterAll(async () => {
  const { product } = await import("./product.ts");
  await product().database.end();
  await proxy.close();
  await hand.close();
});
beforeEach(async () => {
  lines.mockImplementation(() => {});
  session = await hand.open();
  await session.send({ type: "user.message", content: [{ type: "text", text: "go" }] });
  ref = await session.ref();
});
afterEach(() => lines.mockReset());

/** Turns that ended, as counted since the test began. */
function ended(): { readonly completed: number; readonly failed: number } {
  const figures = lines.mock.calls
    .map(([line]) => String(line))
    .filter((line) => line.includes('"_aws"'))
    .map((line) => JSON.parse(line) as { readonly TurnsCompleted?: number; readonly TurnsFailed?: number });
  const sum = (numbers: readonly (number | undefined)[]) =>
    numbers.reduce<number>((total, number = 0) => total + number, 0);
  return {
    completed: sum(figures.map(({ TurnsCompleted }) => TurnsCompleted)),
    failed: sum(figures.map(({ TurnsFailed }) => TurnsFailed)),
  };
}

test("a turn that CompleteTurn ends is counted as completed, once however often the state is repeated", async () => {
  hand.replies.push(answers("end_turn", text("Hello.")));
  await callModel(ref, context);
  await completeTurn(ref, context);
  await completeTurn(ref, context);
  await failTurn({ ...ref, error: "States.Timeout" }, context);

  expect(ended()).toEqual({ completed: 1, failed: 0 });
});

test("a turn that FailTurn ends is counted as failed, once", async () => {
  await failTurn({ ...ref, error: "States.TaskFailed" }, context);
  await failTurn({ ...ref, error: "States.TaskFailed" }, context);

  expect(ended()).toEqual({ completed: 0, failed: 1 });
});

test("a turn that the provider ends is counted as failed", async () => {
  const refused = new ModelError("No.", { type: "billing_error", retryable: false, status: 402 });
  hand.replies.push(() => Promise.reject(refused));

  expect(await callModel(ref, context)).toEqual({ ...ref, next: "stop" });

  expect(ended()).toEqual({ completed: 0, failed: 1 });
});

test("an answer that outlasts the function is given up a minute before its end, and the turn is counted as failed", async () => {
  hand.replies.push(
    ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(new ModelAborted(null)), { once: true });
      }),
  );

  expect(await callModel(ref, contextOf(60_000))).toEqual({ ...ref, next: "stop" });

  expect(ended()).toEqual({ completed: 0, failed: 1 });
  expect(await session.turn()).toMatchObject({ state: "exhausted" });
});

test("a turn that lost its executions too often is counted as failed", async () => {
  for (let segment = 1; segment <= 6; segment += 1) {
    const detail = { name: `${ref.turnId}-${segment}`, status: "TIMED_OUT" };
    await relay({ source: "aws.states", detail }, context);
  }

  expect(ended()).toEqual({ completed: 0, failed: 1 });
  expect(await session.turn()).toMatchObject({ state: "exhausted" });
});

test("a turn that was interrupted is neither", async () => {
  await session.send({ type: "user.interrupt" });
  await completeTurn(ref, context);
  await failTurn({ ...ref, error: "States.Timeout" }, context);

  expect(ended()).toEqual({ completed: 0, failed: 0 });
});
