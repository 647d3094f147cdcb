/** Tasks with a token, through the unmodified AWS client. */

import { SendTaskFailureCommand, SendTaskHeartbeatCommand, SendTaskSuccessCommand } from "@aws-sdk/client-sfn";
import { describe, expect, it } from "vitest";
import { type Functions, type HarnessOptions, ManualClock, useHarness } from "./harness.ts";
import type { Json } from "./json.ts";
import { callbackTask } from "./sample-states.ts";

const createHarness = useHarness();

/** A function that keeps the tokens it is given, and a harness around it. */
async function harness(options: HarnessOptions & { states: Record<string, object> }) {
  const tokens: string[] = [];
  let given = Promise.withResolvers<void>();
  const park: Functions = {
    park(payload) {
      tokens.push((payload as { token: string }).token);
      given.resolve();
      given = Promise.withResolvers();
    },
  };
  const created = await createHarness({ ...options, functions: { ...park, ...options.functions } });
  const { client } = created;
  return {
    ...created,
    tokens,
    async token(number = 1): Promise<string> {
      while (tokens.length < number) await given.promise;
      return tokens[number - 1] ?? "";
    },
    succeed: (taskToken: string, output: Json) =>
      client.send(new SendTaskSuccessCommand({ taskToken, output: JSON.stringify(output) })),
    fail: (taskToken: string, error?: string, cause?: string) =>
      client.send(new SendTaskFailureCommand({ taskToken, error, cause })),
    beat: (taskToken: string) => client.send(new SendTaskHeartbeatCommand({ taskToken })),
  };
}

const parked = (fields: object = {}) => ({ P: callbackTask("park", { End: true, ...fields }) });

describe("SendTaskSuccess", () => {
  it("gives the task its result", async () => {
    const { start, ended, token, succeed } = await harness({ states: parked() });
    const arn = await start();
    expect(await succeed(await token(), { answer: [1] })).toMatchObject({ $metadata: { httpStatusCode: 200 } });
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: { answer: [1] } });
  });

  it("counts the events of a task that was submitted", async () => {
    const { start, ended, token, succeed, stepFunctions } = await harness({ states: parked() });
    const arn = await start();
    const taskToken = await token();
    // Until the function's return is written: started, entered, scheduled, started, submitted.
    await expect.poll(async () => (await stepFunctions.counters(arn)).historyEvents).toBe(5);
    await succeed(taskToken, 1);
    expect(await ended(arn)).toMatchObject({ historyEvents: 8, statesEntered: 1 });
  });

  it("may come before the function returns", async () => {
    const returned = Promise.withResolvers<void>();
    const context: { succeed?: (token: string, output: Json) => Promise<unknown> } = {};
    const { start, ended, succeed } = await harness({
      states: parked(),
      functions: {
        async park(payload) {
          await context.succeed?.((payload as { token: string }).token, "early");
          await returned.promise;
        },
      },
    });
    context.succeed = succeed;
    const arn = await start();
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: "early" });
    returned.resolve();
  });

  it("is heard once", async () => {
    const { start, ended, token, succeed, fail } = await harness({ states: parked() });
    const arn = await start();
    const taskToken = await token();
    await succeed(taskToken, "first");
    const timedOut = { name: "TaskTimedOut", message: "Task Timed Out: 'Provided task does not exist anymore'" };
    await expect(succeed(taskToken, "second")).rejects.toMatchObject(timedOut);
    await expect(fail(taskToken, "E")).rejects.toMatchObject(timedOut);
    expect(await ended(arn)).toMatchObject({ output: "first" });
  });

  it("lets only one of many answers win", async () => {
    const { start, ended, token, succeed } = await harness({ states: parked() });
    const arn = await start();
    const taskToken = await token();
    const answers = await Promise.allSettled([1, 2, 3, 4].map((answer) => succeed(taskToken, answer)));
    const won = answers.findIndex(({ status }) => status === "fulfilled");
    expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await ended(arn)).toMatchObject({ output: won + 1 });
  });

  it.each(["x", "AAAAKgAAAAIAAAAAAAAAAQ", "x".repeat(2_048)])(
    "is refused for a token that was never given",
    async (token) => {
      const { succeed, beat } = await harness({ states: parked() });
      const invalid = { name: "InvalidToken", message: "Invalid Token: 'Invalid token'" };
      await expect(succeed(token, 1)).rejects.toMatchObject(invalid);
      await expect(beat(token)).rejects.toMatchObject(invalid);
    },
  );

  it("is refused when the output is no JSON", async () => {
    const { client, start, token } = await harness({ states: parked() });
    await start();
    const command = new SendTaskSuccessCommand({ taskToken: await token(), output: "{" });
    await expect(client.send(command)).rejects.toMatchObject({ name: "InvalidOutput" });
  });
});

describe("SendTaskFailure", () => {
  const caught = {
    ...parked({ Catch: [{ ErrorEquals: ["States.TaskFailed"], Next: "Caught" }] }),
    Caught: { Type: "Pass", End: true },
  };

  it("fails the task with its error and cause", async () => {
    const { start, ended, token, fail } = await harness({ states: caught });
    const arn = await start();
    await fail(await token(), "Declined", "because");
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: { Error: "Declined", Cause: "because" } });
  });

  it("needs neither", async () => {
    const { start, ended, token, fail } = await harness({ states: caught });
    const arn = await start();
    await fail(await token());
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: { Error: null, Cause: null } });
  });
});

describe("a retried task", () => {
  it("has a new token for each attempt", async () => {
    const clock = new ManualClock();
    const states = parked({ Retry: [{ ErrorEquals: ["States.ALL"], MaxAttempts: 1 }] });
    const { start, ended, token, fail, succeed } = await harness({ clock, states });
    const arn = await start();
    const first = await token(1);
    await fail(first, "E");
    await clock.elapse(1_000);
    const second = await token(2);
    expect(second).not.toBe(first);
    await expect(succeed(first, 1)).rejects.toMatchObject({ name: "TaskTimedOut" });
    await succeed(second, 2);
    expect(await ended(arn)).toMatchObject({ output: 2 });
  });

  it("is one whose function failed", async () => {
    const clock = new ManualClock();
    const context = { failures: 1 };
    const tokens: string[] = [];
    const { start, ended, succeed } = await harness({
      clock,
      states: parked({ Retry: [{ ErrorEquals: ["Error"], MaxAttempts: 1 }] }),
      functions: {
        park(payload) {
          if (context.failures-- > 0) throw new Error("first time");
          tokens.push((payload as { token: string }).token);
        },
      },
    });
    const arn = await start();
    await clock.elapse(1_000);
    await expect.poll(() => tokens).toHaveLength(1);
    await succeed(tokens[0] ?? "", "second time");
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: "second time" });
  });
});

describe("time", () => {
  const routes = {
    ...parked({
      TimeoutSeconds: 100,
      HeartbeatSeconds: 10,
      Catch: [
        {
          ErrorEquals: ["States.HeartbeatTimeout"],
          Output: ["heartbeat", "{% $states.errorOutput.Error %}"],
          Next: "Caught",
        },
        { ErrorEquals: ["States.Timeout"], Output: ["timeout", "{% $states.errorOutput.Error %}"], Next: "Caught" },
      ],
    }),
    Caught: { Type: "Pass", End: true },
  };

  it("ends the task after TimeoutSeconds, and its token with it", async () => {
    const clock = new ManualClock();
    const states = parked({
      TimeoutSeconds: "{% $states.input.delay %}",
      Catch: [{ ErrorEquals: ["States.ALL"], Next: "Caught" }],
    });
    const { start, ended, token, succeed } = await harness({
      clock,
      states: { ...states, Caught: { Type: "Pass", End: true } },
    });
    const arn = await start({ delay: 3_600 });
    const taskToken = await token();
    await clock.elapse(3_600_000);
    expect(await ended(arn)).toMatchObject({ output: { Error: "States.Timeout", Cause: "" } });
    await expect(succeed(taskToken, 1)).rejects.toMatchObject({ name: "TaskTimedOut" });
  });

  it("ends a task without heartbeats, under the name States.Timeout", async () => {
    const clock = new ManualClock();
    const { start, ended } = await harness({ clock, states: routes });
    const arn = await start();
    await clock.elapse(10_000);
    expect(await ended(arn)).toMatchObject({ output: ["heartbeat", "States.Timeout"] });
  });

  it("runs on with heartbeats, to the timeout at most", async () => {
    const clock = new ManualClock();
    const { start, ended, token, beat } = await harness({ clock, states: routes });
    const arn = await start();
    const taskToken = await token();
    for (let passed = 0; passed < 90; passed += 9) {
      clock.advance(9_000);
      await beat(taskToken);
    }
    clock.advance(9_999);
    await beat(taskToken);
    await clock.elapse(1);
    expect(await ended(arn)).toMatchObject({ output: ["timeout", "States.Timeout"] });
    await expect(beat(taskToken)).rejects.toMatchObject({ name: "TaskTimedOut" });
  });
});
