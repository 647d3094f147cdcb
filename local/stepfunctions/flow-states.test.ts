/**
 * Pass, Succeed, Fail, Choice and Wait: what the States Language and the AWS documentation promise, with outcomes written out.
 *
 * Event counts and failure causes are those of executions recorded on AWS, where a recording was at hand.
 */

import { describe, expect, it } from "vitest";
import { ManualClock, useHarness } from "./harness.ts";
import type { Json } from "./json.ts";

const harness = useHarness();

describe("Pass", () => {
  it("passes its input on", async () => {
    const { run } = await harness({ states: { A: { Type: "Pass", End: true } } });
    expect(await run({ a: [1, { b: null }] })).toMatchObject({ status: "SUCCEEDED", output: { a: [1, { b: null }] } });
  });

  it("evaluates strings at any depth and leaves other strings alone", async () => {
    const Output = { sum: "{% $states.input.a + 1 %}", list: ["{% 'x' & 'y' %}", "$states", 2], none: "{% null %}" };
    const { run } = await harness({ states: { A: { Type: "Pass", Output: [Output], End: true } } });
    expect(await run({ a: 1 })).toMatchObject({ output: [{ sum: 2, list: ["xy", "$states", 2], none: null }] });
  });

  it("assigns variables from their values at entry, which later states read", async () => {
    const { run } = await harness({
      states: {
        A: { Type: "Pass", Assign: { x: 3, y: 6 }, Next: "Swap" },
        Swap: { Type: "Pass", Assign: { x: "{% $y %}", y: "{% $x %}" }, Output: "{% [$x, $y] %}", Next: "B" },
        B: { Type: "Pass", Output: { before: "{% $states.input %}", after: "{% [$x, $y] %}" }, End: true },
      },
    });
    expect(await run()).toMatchObject({ output: { before: [3, 6], after: [6, 3] } });
  });

  it("fails the execution when an expression yields nothing", async () => {
    const { run } = await harness({
      states: { State0: { Type: "Pass", Output: { result: "{% $doesNotExist %}" }, End: true } },
    });
    expect(await run()).toMatchObject({
      status: "FAILED",
      error: "States.QueryEvaluationError",
      cause:
        "An error occurred while executing the state 'State0' (entered at the event id #2). The JSONata expression '$doesNotExist' specified for the field 'Output/result' returned nothing (undefined).",
      // ExecutionStarted, PassStateEntered, EvaluationFailed, ExecutionFailed
      historyEvents: 4,
    });
  });
});

describe("Succeed and Fail", () => {
  it("ends with the Output of Succeed", async () => {
    const { run } = await harness({ states: { A: { Type: "Succeed", Output: { n: "{% $states.input.n * 2 %}" } } } });
    // ExecutionStarted, SucceedStateEntered, SucceedStateExited, ExecutionSucceeded
    expect(await run({ n: 21 })).toMatchObject({ status: "SUCCEEDED", output: { n: 42 }, historyEvents: 4 });
  });

  it("fails with the Error and Cause of Fail", async () => {
    const { run } = await harness({
      states: { A: { Type: "Fail", Error: "{% 'E' & $states.input %}", Cause: "why" } },
    });
    // ExecutionStarted, FailStateEntered, ExecutionFailed
    expect(await run("1")).toEqual({
      status: "FAILED",
      output: undefined,
      error: "E1",
      cause: "why",
      historyEvents: 3,
      statesEntered: 1,
    });
  });
});

describe("Choice", () => {
  const states = {
    C: {
      Type: "Choice",
      Choices: [
        { Condition: "{% $states.input.n > 10 %}", Output: "big", Assign: { taken: "rule" }, Next: "End" },
        { Condition: "{% $states.input.n > 5 %}", Next: "End" },
      ],
      Default: "End",
      Output: "default",
      Assign: { taken: "default" },
    },
    End: { Type: "Pass", Output: ["{% $states.input %}", "{% $exists($taken) ? $taken : null %}"], End: true },
  };

  it.each<[number, Json]>([
    [11, ["big", "rule"]],
    // A rule without Output and Assign of its own does not use those of the state.
    [6, [{ n: 6 }, null]],
    [1, ["default", "default"]],
  ])("with n = %d", async (n, output) => {
    const { run } = await harness({ states });
    expect(await run({ n })).toMatchObject({ output, statesEntered: 2, historyEvents: 6 });
  });

  it("fails with States.NoChoiceMatched without Default", async () => {
    const Choices = [{ Condition: "{% false %}", Next: "S" }];
    const { run } = await harness({ states: { C: { Type: "Choice", Choices }, S: { Type: "Succeed" } } });
    expect(await run()).toMatchObject({ status: "FAILED", error: "States.NoChoiceMatched" });
  });

  it("fails when a Condition is no boolean", async () => {
    const Choices = [{ Condition: "{% 'true' %}", Next: "S" }];
    const { run } = await harness({ states: { C: { Type: "Choice", Choices }, S: { Type: "Succeed" } } });
    expect(await run()).toMatchObject({
      error: "States.QueryEvaluationError",
      cause: expect.stringContaining("returned an unexpected result type. Expected 'boolean', but was 'string'"),
    });
  });
});

describe("Wait", () => {
  it.each<[string, object, number]>([
    ["Seconds", { Seconds: 90 }, 90_000],
    ["Seconds in JSONata", { Seconds: "{% $states.input.seconds %}" }, 7_000],
    ["Timestamp", { Timestamp: "2026-01-01T01:00:00+00:00" }, 3_600_000],
    ["Timestamp in JSONata", { Timestamp: "{% $states.input.at %}" }, 1_500],
  ])("waits for %s", async (_, until, milliseconds) => {
    const clock = new ManualClock();
    const { start, ended } = await harness({ clock, states: { W: { Type: "Wait", ...until, End: true } } });
    const input = { seconds: 7, at: "2026-01-01T00:00:01.500Z" };
    const arn = await start(input);
    await clock.elapse(milliseconds);
    // ExecutionStarted, WaitStateEntered, WaitStateExited, ExecutionSucceeded
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: input, historyEvents: 4 });
  });

  it("does not wait for a time that has passed", async () => {
    const { run } = await harness({ states: { W: { Type: "Wait", Timestamp: "2016-12-05T21:29:29Z", End: true } } });
    expect(await run()).toMatchObject({ status: "SUCCEEDED" });
  });

  it.each<[string, object]>([
    ["a negative number of seconds", { Seconds: "{% -1 %}" }],
    ["a fraction of a second", { Seconds: "{% 1.5 %}" }],
    ["a month that does not exist", { Timestamp: "{% '2016-13-05T21:29:29Z' %}" }],
    ["a time without zone", { Timestamp: "{% '2016-12-05T21:29:29' %}" }],
    ["a number for a time", { Timestamp: "{% 5 %}" }],
  ])("fails for %s", async (_, until) => {
    const { run } = await harness({ states: { W: { Type: "Wait", ...until, End: true } } });
    expect(await run()).toMatchObject({ status: "FAILED", error: "States.QueryEvaluationError" });
  });
});

it("tells a state where it is", async () => {
  const clock = new ManualClock();
  const { start, ended } = await harness({
    clock,
    states: { A: { Type: "Pass", Output: "{% $states.context %}", End: true } },
  });
  const arn = await start({ a: 1 }, "turn_1-1");
  expect(arn).toBe("arn:aws:states:us-east-1:000000000000:execution:machine:turn_1-1");
  expect(await ended(arn)).toMatchObject({
    output: {
      Execution: { Id: arn, Name: "turn_1-1", Input: { a: 1 }, StartTime: "2026-01-01T00:00:00.000Z" },
      State: { Name: "A", EnteredTime: "2026-01-01T00:00:00.000Z", RetryCount: 0 },
      StateMachine: { Id: "arn:aws:states:us-east-1:000000000000:stateMachine:machine", Name: "machine" },
    },
  });
});
