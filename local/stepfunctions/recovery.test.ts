/** Executions outlive the process that drives them, however it ends. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { DescribeExecutionCommand, SendTaskSuccessCommand, type SFNClient } from "@aws-sdk/client-sfn";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testDatabase } from "../../test/database.ts";
import { type Functions, ManualClock, openHarness } from "./harness.ts";
import { isJsonObject, type Json } from "./json.ts";
import { createStepFunctionsPool } from "./pool.ts";
import { RECOVERY_DEFINITION, RECOVERY_KINDS } from "./recovery-machine.ts";
import { callbackTask, definitionOf, task } from "./sample-states.ts";

interface Call {
  readonly name: string;
  readonly payload: Json;
}

type OpenOptions = Omit<Parameters<typeof openHarness>[0], "pool">;

let database: Awaited<ReturnType<typeof testDatabase>>;
let pool: ReturnType<typeof createStepFunctionsPool>;
let stops: (() => Promise<void>)[] = [];

beforeEach(async () => {
  database = await testDatabase();
  pool = createStepFunctionsPool(database.connectionString);
});

afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  stops = [];
  await pool.end();
  await database.close();
});

/** Starts a Step Functions on the test's database. Each takes over from the one before. */
async function open(options: OpenOptions) {
  const { harness, stop } = await openHarness({ pool, ...options });
  stops.push(stop);
  return { ...harness, stop };
}

const arnOf = (name: string): string => `arn:aws:states:us-east-1:000000000000:execution:machine:${name}`;

function tokensIn(payload: Json): string[] {
  return isJsonObject(payload) && typeof payload["token"] === "string" ? [payload["token"]] : [];
}

async function positions(): Promise<Record<string, string | null>> {
  const { rows } = await pool.query<{ name: string; position: string | null }>(
    "select name, position from stepfunctions.executions",
  );
  return Object.fromEntries(rows.map(({ name, position }) => [name, position]));
}

describe("after kill -9", () => {
  /** Runs the machine in another process, kills it when every execution stands where it should, and returns its calls. */
  async function killed(): Promise<Call[]> {
    const victim = spawn(
      process.execPath,
      [new URL("./recovery-victim.ts", import.meta.url).pathname, database.connectionString],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const calls: Call[] = [];
    createInterface({ input: victim.stdout }).on("line", (line) => calls.push(JSON.parse(line) as Call));
    try {
      await expect
        .poll(
          async () => {
            const written = await positions().catch(() => ({}) as Record<string, null>);
            const hanging = calls.filter(({ name }) => name === "hang").length;
            return {
              hanging,
              parked: written["parked"]?.includes('"submitted":true') ?? false,
              waiting: written["wait"]?.includes('"kind":"wait"') ?? false,
              backingOff: written["backoff"]?.includes('"kind":"backoff"') ?? false,
              mapped: written["map"]?.includes('"submitted":true') ?? false,
            };
          },
          { timeout: 20_000, interval: 20 },
        )
        .toEqual({ hanging: 3, parked: true, waiting: true, backingOff: true, mapped: true });
    } finally {
      victim.kill("SIGKILL");
      await once(victim, "exit");
    }
    return calls;
  }

  function tokensOf(calls: readonly Call[], name: string): string[] {
    return calls.flatMap((call) => (call.name === name ? tokensIn(call.payload) : []));
  }

  it("everything goes on from where it stood", async () => {
    const before = await killed();
    expect(before.filter(({ name }) => name === "first")).toHaveLength(RECOVERY_KINDS.length);
    const [parkedToken = "", mapToken = ""] = tokensOf(before, "park");
    const [submittingToken = ""] = tokensOf(before, "hang");

    const calls: Call[] = [];
    const record = (name: string) => (payload: Json) => {
      calls.push({ name, payload });
      return payload;
    };
    const functions: Functions = Object.fromEntries(
      ["first", "hang", "park", "flaky", "item"].map((name) => [name, record(name)]),
    );
    const clock = new ManualClock(Date.now());
    const { client, ended } = await open({
      clock,
      functions,
      stateMachines: [{ name: "machine", definition: RECOVERY_DEFINITION }],
    });
    const succeed = (taskToken: string, output: Json) =>
      client.send(new SendTaskSuccessCommand({ taskToken, output: JSON.stringify(output) }));

    // A task that was running is invoked again, and what it followed is not.
    expect(await ended(arnOf("task"))).toMatchObject({
      status: "SUCCEEDED",
      output: { kind: "task" },
      historyEvents: 14,
      statesEntered: 3,
    });
    // Parked tasks keep their tokens and are not invoked again.
    await succeed(parkedToken, "after the kill");
    expect(await ended(arnOf("parked"))).toMatchObject({
      output: "after the kill",
      historyEvents: 15,
      statesEntered: 3,
    });
    // One whose function had not returned is invoked again with the same token.
    expect(tokensOf(calls, "hang")).toEqual([submittingToken]);
    await succeed(submittingToken, "answered");
    expect(await ended(arnOf("submitting"))).toMatchObject({ output: "answered" });
    // In the Map the finished item is kept, the running one invoked, the parked one waits, the last begins.
    await succeed(mapToken, "parked item");
    expect(await ended(arnOf("map"))).toMatchObject({
      output: ["done as map", "running", "parked item", "later as map"],
    });
    // The rest of an hour passes for the wait and for the retry.
    clock.advance(3_500_000);
    for (const name of ["wait", "backoff"]) {
      const { status } = await client.send(new DescribeExecutionCommand({ executionArn: arnOf(name) }));
      expect(status).toBe("RUNNING");
    }
    clock.advance(100_000);
    expect(await ended(arnOf("wait"))).toMatchObject({ output: "waited as wait" });
    expect(await ended(arnOf("backoff"))).toMatchObject({ output: 1 });

    expect(calls.map(({ name, payload }) => [name, tokensIn(payload).length > 0 ? "token" : payload]).sort()).toEqual(
      [
        ["flaky", 1],
        ["hang", "running"],
        ["hang", "token"],
        ["hang", { kind: "task" }],
        ["item", "later"],
      ].sort(),
    );
  });

  it("a deadline that passed meanwhile has passed", async () => {
    const [parkedToken = ""] = tokensOf(await killed(), "park");
    const { client, ended } = await open({
      clock: new ManualClock(Date.now() + 7_200_000),
      functions: { hang: () => null, flaky: () => "well" },
      stateMachines: [{ name: "machine", definition: RECOVERY_DEFINITION }],
    });
    expect(await ended(arnOf("parked"))).toMatchObject({ status: "FAILED", error: "States.Timeout" });
    expect(await ended(arnOf("wait"))).toMatchObject({ status: "SUCCEEDED" });
    expect(await ended(arnOf("backoff"))).toMatchObject({ output: "well" });
    const answer = new SendTaskSuccessCommand({ taskToken: parkedToken, output: "1" });
    await expect(client.send(answer)).rejects.toMatchObject({ name: "TaskTimedOut" });
  });
});

describe("an acknowledged answer", () => {
  it("is not lost when the process ends before the next effect", async () => {
    const tokens: string[] = [];
    const functions = { park: (payload: Json) => void tokens.push(...tokensIn(payload)) };
    // The other iteration holds the Map, so that nothing is written after the answer.
    const states = {
      M: {
        Type: "Map",
        Items: ["a", "b"],
        ItemProcessor: { StartAt: "P", States: { P: callbackTask("park", { End: true }) } },
        End: true,
      },
    };
    const first = await open({ states, functions });
    await first.start({}, "n");
    await expect.poll(async () => (await positions())["n"]?.split('"submitted":true')).toHaveLength(3);
    const answer = (client: SFNClient, taskToken: string | undefined, output: string) =>
      client.send(new SendTaskSuccessCommand({ taskToken, output }));
    await answer(first.client, tokens[0], '"before"');

    const second = await open({ states, functions });
    await expect(answer(second.client, tokens[0], '"again"')).rejects.toMatchObject({ name: "TaskTimedOut" });
    await answer(second.client, tokens[1], '"after"');
    expect(await second.ended(arnOf("n"))).toMatchObject({ output: ["before", "after"] });
  });
});

describe("a process that lost its executions", () => {
  it("writes nothing and invokes nothing any more", async () => {
    const released = Promise.withResolvers<string>();
    const calls: string[] = [];
    const PAYLOAD = "{% $states.result.Payload %}";
    const states = {
      A: task("slow", { Output: PAYLOAD, Next: "B" }),
      B: task("next", { Output: PAYLOAD, End: true }),
    };
    const first = await open({ states, functions: { slow: () => released.promise, next: () => calls.push("first") } });
    await first.start({}, "n");

    const own = Promise.withResolvers<string>();
    const second = await open({ states, functions: { slow: () => own.promise, next: (payload) => [payload] } });
    released.resolve("first");
    await first.stop();
    expect(calls).toEqual([]);
    expect(await positions()).toEqual({ n: null });
    own.resolve("second");
    expect(await second.ended(arnOf("n"))).toMatchObject({ status: "SUCCEEDED", output: ["second"] });
  });

  it("has written a token before it gave it out", async () => {
    const tokens: string[] = [];
    const hang = (payload: Json) => {
      tokens.push(...tokensIn(payload));
      return new Promise(() => undefined);
    };
    const states = { P: callbackTask("hang", { End: true }) };
    const first = await open({ states, functions: { hang } });
    await first.start({}, "n");
    await expect.poll(() => tokens).toHaveLength(1);

    const second = await open({ states, functions: { hang } });
    await expect.poll(() => tokens).toHaveLength(2);
    expect(tokens[1]).toBe(tokens[0]);
    await second.client.send(new SendTaskSuccessCommand({ taskToken: tokens[0], output: "1" }));
    expect(await second.ended(arnOf("n"))).toMatchObject({ output: 1 });
  });
});

describe("stop", () => {
  it("lets a function finish, writes its transition, and starts nothing more", async () => {
    const called = Promise.withResolvers<void>();
    const released = Promise.withResolvers<string>();
    const calls: string[] = [];
    const states = {
      A: task("slow", { Output: "{% $states.result.Payload %}", Next: "B" }),
      B: task("next", { Output: "{% $states.result.Payload %}", End: true }),
    };
    const first = await open({
      states,
      stopGraceMilliseconds: 10_000,
      functions: {
        slow() {
          called.resolve();
          return released.promise;
        },
        next: () => calls.push("too late"),
      },
    });
    await first.start({}, "n");
    await called.promise;
    const stopped = first.stop();
    released.resolve("finished");
    await stopped;
    expect(calls).toEqual([]);

    const second = await open({ states, functions: { next: (payload) => [payload] } });
    expect(await second.ended(arnOf("n"))).toMatchObject({ output: ["finished"], historyEvents: 12 });
  });

  it("does not wait for what is parked", async () => {
    const tokens: string[] = [];
    const states = { P: callbackTask("park", { End: true }) };
    const first = await open({
      states,
      stopGraceMilliseconds: 60_000,
      functions: { park: (payload) => void tokens.push(...tokensIn(payload)) },
    });
    await first.start({}, "n");
    await expect.poll(async () => (await positions())["n"]).toContain('"submitted":true');
    const { endpoint } = first.stepFunctions;
    await first.stop();
    await expect(fetch(endpoint)).rejects.toThrow();

    const second = await open({ states });
    await second.client.send(new SendTaskSuccessCommand({ taskToken: tokens[0], output: "2" }));
    expect(await second.ended(arnOf("n"))).toMatchObject({ output: 2 });
  });
});

it("keeps the definition of an execution through a release", async () => {
  const tokens: string[] = [];
  const park = (payload: Json) => void tokens.push(...tokensIn(payload));
  const old = { P: callbackTask("park", { Next: "Old" }), Old: { Type: "Succeed", Output: "old" } };
  const first = await open({ states: old, functions: { park } });
  await first.start({}, "n");
  await expect.poll(() => tokens).toHaveLength(1);

  const second = await open({
    stateMachines: [{ name: "machine", definition: definitionOf({ New: { Type: "Succeed", Output: "new" } }) }],
    functions: { park },
  });
  await expect.poll(async () => (await positions())["n"]).toContain('"submitted":true');
  await second.client.send(new SendTaskSuccessCommand({ taskToken: tokens.at(-1), output: "1" }));
  expect(await second.ended(arnOf("n"))).toMatchObject({ output: "old" });
  expect(await second.run()).toMatchObject({ output: "new" });
});

it("starts two processes on an empty database at once", async () => {
  const states = { A: { Type: "Pass", End: true } };
  const [first, second] = await Promise.all([open({ states }), open({ states })]);
  expect(await first.run(1)).toMatchObject({ output: 1 });
  expect(await second.run(2)).toMatchObject({ output: 2 });
});

it("delays executions while the database cannot be written, and does not fail them", async () => {
  const called = Promise.withResolvers<void>();
  const released = Promise.withResolvers<string>();
  const { start, ended, logged } = await open({
    states: { A: task("slow", { Output: "{% $states.result.Payload %}", End: true }) },
    functions: {
      slow() {
        called.resolve();
        return released.promise;
      },
    },
  });
  const arn = await start();
  await called.promise;
  await pool.query("alter table stepfunctions.executions rename to away");
  released.resolve("kept");
  await expect.poll(() => logged.join()).toContain('{"code":"42P01"}');
  await pool.query("alter table stepfunctions.away rename to executions");
  expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: "kept" });
});

it("asks for patience while it stops, instead of calling a living token dead", async () => {
  const tokens: string[] = [];
  const called = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const states = {
    C: { Type: "Choice", Choices: [{ Condition: "{% $states.input = 'park' %}", Next: "P" }], Default: "T" },
    P: callbackTask("park", { End: true }),
    T: task("slow", { End: true }),
  };
  const first = await open({
    states,
    stopGraceMilliseconds: 10_000,
    functions: {
      park: (payload) => void tokens.push(...tokensIn(payload)),
      slow() {
        called.resolve();
        return released.promise;
      },
    },
  });
  await first.start("park", "parked");
  await first.start("slow", "slow");
  await called.promise;
  await expect.poll(async () => (await positions())["parked"]).toContain('"submitted":true');
  const stopped = first.stop();
  const answer = new SendTaskSuccessCommand({ taskToken: tokens[0], output: "1" });
  await expect(first.client.send(answer)).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
  await first.start("park", "late");
  released.resolve();
  await stopped;

  expect(tokens).toHaveLength(1);

  const later: string[] = [];
  const second = await open({ states, functions: { park: (payload) => void later.push(...tokensIn(payload)) } });
  await second.client.send(answer);
  expect(await second.ended(arnOf("parked"))).toMatchObject({ output: 1 });
  await expect.poll(() => later).toHaveLength(1);
});
