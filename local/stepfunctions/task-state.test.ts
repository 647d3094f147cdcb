/**
 * Task, Retry and Catch: what the States Language and the AWS documentation promise, with outcomes written out.
 *
 * Event counts and failure causes are those of executions recorded on AWS, where a recording was at hand.
 */

import { describe, expect, it } from "vitest";
import { ManualClock, useHarness } from "./harness.ts";
import type { Json } from "./json.ts";
import { task } from "./sample-states.ts";

const harness = useHarness();

class ValueError extends Error {
  override readonly name: string = "ValueError";
}

const boom = (): never => {
  throw new ValueError("boom");
};

describe("Task", () => {
  it("has the answer of Lambda as its result", async () => {
    const { run } = await harness({
      states: { T: task("echo", { End: true }) },
      functions: { echo: (payload) => ({ payload }) },
    });
    expect(await run({ a: 1 })).toEqual({
      status: "SUCCEEDED",
      output: { ExecutedVersion: "$LATEST", Payload: { payload: { a: 1 } }, StatusCode: 200 },
      error: undefined,
      cause: undefined,
      // ExecutionStarted, five of the task, ExecutionSucceeded
      historyEvents: 7,
      statesEntered: 1,
    });
  });

  it("sends an empty object without Payload, and takes null for no answer", async () => {
    const received: Json[] = [];
    const { run } = await harness({
      states: {
        T: task("f", { Arguments: { FunctionName: "{% 'f' %}" }, Output: "{% $states.result.Payload %}", End: true }),
      },
      functions: { f: (payload) => void received.push(payload) },
    });
    expect(await run({ a: 1 })).toMatchObject({ status: "SUCCEEDED", output: null });
    expect(received).toEqual([{}]);
  });

  it("keeps what a function does to its payload from the state", async () => {
    const { run } = await harness({
      states: { T: task("f", { Output: "{% $states.input %}", End: true }) },
      functions: { f: (payload) => Object.assign(payload as object, { spoiled: true }) },
    });
    expect(await run({ a: 1 })).toMatchObject({ output: { a: 1 } });
  });

  it("fails with the name of the error that the function throws", async () => {
    const { run, logged } = await harness({ states: { T: task("f", { End: true }) }, functions: { f: boom } });
    // ExecutionStarted, TaskStateEntered, TaskScheduled, TaskStarted, TaskFailed, ExecutionFailed
    expect(await run()).toMatchObject({ status: "FAILED", error: "ValueError", cause: undefined, historyEvents: 6 });
    expect(logged.join("\n")).toContain("ValueError");
    expect(logged.join("\n")).not.toContain("boom");
  });

  it("fails with States.Timeout after TimeoutSeconds, whatever the function does later", async () => {
    const clock = new ManualClock();
    const late = Promise.withResolvers<string>();
    const deadlines: (Date | undefined)[] = [];
    const { start, ended } = await harness({
      clock,
      states: {
        T: task("f", {
          TimeoutSeconds: "{% $states.input.limit %}",
          Catch: [{ ErrorEquals: ["States.Timeout"], Output: "{% $states.errorOutput %}", Next: "W" }],
          End: true,
        }),
        W: { Type: "Wait", Seconds: 1, End: true },
      },
      functions: {
        f(_, { deadline }) {
          deadlines.push(deadline);
          return late.promise;
        },
      },
    });
    const arn = await start({ limit: 30 });
    await clock.elapse(30_000);
    late.resolve("late");
    await clock.elapse(1_000);
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: { Error: "States.Timeout", Cause: "" } });
    expect(deadlines).toEqual([new Date("2026-01-01T00:00:30.000Z")]);
  });

  it.each(["{% 0 %}", "{% 1.5 %}", "{% '10' %}", "{% 100000000 %}"])("fails for TimeoutSeconds %s", async (limit) => {
    const { run } = await harness({ states: { T: task("f", { TimeoutSeconds: limit, End: true }) } });
    expect(await run()).toMatchObject({ error: "States.QueryEvaluationError", historyEvents: 4 });
  });
});

describe("Retry", () => {
  it("tries three times more by default, after 1, 2 and 4 seconds", async () => {
    const clock = new ManualClock();
    let calls = 0;
    const { start, ended } = await harness({
      clock,
      states: { T: task("f", { Retry: [{ ErrorEquals: ["ValueError"] }], End: true }) },
      functions: {
        f() {
          calls += 1;
          return boom();
        },
      },
    });
    const arn = await start();
    for (const delay of [1_000, 2_000, 4_000]) await clock.elapse(delay);
    // Started, entered, four times three events of an attempt, failed
    expect(await ended(arn)).toMatchObject({
      status: "FAILED",
      error: "ValueError",
      historyEvents: 15,
      statesEntered: 1,
    });
    expect(calls).toBe(4);
  });

  it("tells the state how often it was retried, and starts anew when the state is entered again", async () => {
    const clock = new ManualClock();
    const counts: Json[] = [];
    const { start, ended } = await harness({
      clock,
      states: {
        T: task("f", {
          Arguments: { FunctionName: "f", Payload: "{% $states.context.State.RetryCount %}" },
          Retry: [{ ErrorEquals: ["States.TaskFailed"], MaxAttempts: 2, BackoffRate: 1 }],
          Next: "Again",
        }),
        Again: {
          Type: "Choice",
          Choices: [{ Condition: "{% $exists($second) %}", Next: "S" }],
          Default: "T",
          Assign: { second: true },
        },
        S: { Type: "Succeed" },
      },
      functions: {
        f(count) {
          counts.push(count);
          if (count !== 2) boom();
        },
      },
    });
    const arn = await start();
    for (let retry = 0; retry < 4; retry += 1) await clock.elapse(1_000);
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED" });
    expect(counts).toEqual([0, 1, 2, 0, 1, 2]);
  });

  it("waits a random share of the delay with full jitter", async () => {
    const clock = new ManualClock();
    const { start, ended } = await harness({
      clock,
      random: () => 0.5,
      states: {
        T: task("f", {
          Retry: [{ ErrorEquals: ["States.ALL"], IntervalSeconds: 10, MaxAttempts: 1, JitterStrategy: "FULL" }],
          End: true,
        }),
      },
      functions: { f: boom },
    });
    const arn = await start();
    await clock.elapse(5_000);
    expect(await ended(arn)).toMatchObject({ status: "FAILED" });
  });

  it("covers a failing expression of the state", async () => {
    const clock = new ManualClock();
    const { start, ended } = await harness({
      clock,
      states: {
        T: task("f", {
          Arguments: { FunctionName: "f", Payload: "{% $states.context.State.RetryCount = 0 ? $nothing : 'well' %}" },
          Retry: [{ ErrorEquals: ["States.QueryEvaluationError"], MaxAttempts: 1 }],
          Output: "{% $states.result.Payload %}",
          End: true,
        }),
      },
      functions: { f: (payload) => payload },
    });
    const arn = await start();
    await clock.elapse(1_000);
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: "well" });
  });
});

describe("Catch", () => {
  const caught = (errorEquals: string[], fields: object = {}) => ({
    T: task("f", { Catch: [{ ErrorEquals: errorEquals, Next: "Caught", ...fields }], End: true }),
    Caught: { Type: "Pass", End: true },
  });

  it("goes on with the error output", async () => {
    const { run } = await harness({ states: caught(["ValueError"]), functions: { f: boom } });
    expect(await run()).toMatchObject({
      status: "SUCCEEDED",
      output: { Error: "ValueError", Cause: '{"errorType":"ValueError","errorMessage":"boom"}' },
      // Started, entered, scheduled, started, failed, exited, two of Caught, succeeded
      historyEvents: 9,
    });
  });

  it("has Output and Assign of its own, and not those of the state", async () => {
    const { run } = await harness({
      states: {
        T: task("f", {
          Assign: { by: "state" },
          Output: "state",
          Catch: [
            {
              ErrorEquals: ["States.ALL"],
              Assign: { by: "{% $states.errorOutput.Error %}" },
              Output: "{% $states.input %}",
              Next: "Caught",
            },
          ],
          End: true,
        }),
        Caught: { Type: "Pass", Output: ["{% $states.input %}", "{% $by %}"], End: true },
      },
      functions: { f: boom },
    });
    expect(await run("in")).toMatchObject({ output: ["in", "ValueError"] });
  });

  it("comes after the retries", async () => {
    const clock = new ManualClock();
    const states = caught(["States.ALL"]);
    const { start, ended } = await harness({
      clock,
      states: { ...states, T: { ...states.T, Retry: [{ ErrorEquals: ["States.ALL"], MaxAttempts: 1 }] } },
      functions: { f: boom },
    });
    const arn = await start();
    await clock.elapse(1_000);
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: { Error: "ValueError" } });
  });

  it("takes a failing Output of the state", async () => {
    const states = caught(["States.QueryEvaluationError"], { Output: "{% $states.errorOutput.Error %}" });
    const { run } = await harness({
      states: { ...states, T: { ...states.T, Output: "{% $nothing %}" } },
      functions: { f: () => 1 },
    });
    expect(await run()).toMatchObject({ status: "SUCCEEDED", output: "States.QueryEvaluationError" });
  });

  it("does not take an error of another name, nor its own failing Output", async () => {
    const other = await harness({ states: caught(["KeyError"]), functions: { f: boom } });
    expect(await other.run()).toMatchObject({ status: "FAILED", error: "ValueError" });
    const own = await harness({ states: caught(["States.ALL"], { Output: "{% $nothing %}" }), functions: { f: boom } });
    expect(await own.run()).toMatchObject({ status: "FAILED", error: "States.QueryEvaluationError" });
  });
});
