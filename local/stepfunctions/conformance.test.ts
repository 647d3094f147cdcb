/**
 * What the States Language and the AWS documentation promise, with outcomes written out.
 *
 * Event counts and failure causes are those of executions recorded on AWS, where a recording was at hand.
 */

import { describe, expect, it } from "vitest";
import { ManualClock, useHarness } from "./harness.ts";
import type { Json } from "./json.ts";
import { definitionOf, task } from "./sample-states.ts";

const harness = useHarness();

class ValueError extends Error {
  override readonly name: string = "ValueError";
}

const boom = (): never => {
  throw new ValueError("boom");
};

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

describe("Map", () => {
  const each = (
    fields: object,
    processor: object = task("f", { Output: "{% $states.result.Payload %}", End: true }),
  ) => ({
    M: {
      Type: "Map",
      ItemProcessor: { ProcessorConfig: { Mode: "INLINE" }, StartAt: "E", States: { E: processor } },
      End: true,
      ...fields,
    },
  });

  it("answers in the order of the items", async () => {
    const waiting: Record<string, () => void> = {};
    const { run } = await harness({
      states: each({ Items: "{% $states.input.items %}" }),
      functions: {
        f: (item) =>
          new Promise((resolve) => {
            waiting[item as string] = () => resolve(`${item as string}!`);
            // The last item is answered first.
            if (Object.keys(waiting).length === 3) for (const name of ["c", "b", "a"]) waiting[name]?.();
          }),
      },
    });
    expect(await run({ items: ["a", "b", "c"] })).toMatchObject({
      output: ["a!", "b!", "c!"],
      // Started, MapStateEntered, MapStateStarted, 3 × (started, five of the task, succeeded), MapStateSucceeded, exited, succeeded
      historyEvents: 1 + 2 + 3 * 7 + 2 + 1,
      statesEntered: 4,
    });
  });

  it.each<[Json, Json]>([
    [["only"], ["only"]],
    [[], []],
    [[["nested"]], [["nested"]]],
  ])("maps %j", async (items, output) => {
    const { run } = await harness({ states: each({ Items: "{% $states.input.run %}" }, { Type: "Pass", End: true }) });
    expect(await run({ run: items })).toMatchObject({ status: "SUCCEEDED", output });
  });

  it("takes its input for the items without Items", async () => {
    const { run } = await harness({ states: each({}, { Type: "Pass", End: true }) });
    expect(await run([1, 2])).toMatchObject({ output: [1, 2] });
  });

  it("shapes each item with ItemSelector and knows it inside", async () => {
    const { run } = await harness({
      states: {
        V: { Type: "Pass", Assign: { outer: "o" }, Next: "M" },
        ...each(
          {
            Items: ["x", "y"],
            ItemSelector: {
              i: "{% $states.context.Map.Item.Index %}",
              v: "{% $states.context.Map.Item.Value %}",
              t: "{% $states.input.turn %}",
            },
          },
          {
            Type: "Pass",
            Output: ["{% $states.input %}", "{% $outer %}", "{% $states.context.Map.Item.Value %}"],
            End: true,
          },
        ),
      },
    });
    expect(await run({ turn: 7 })).toMatchObject({
      output: [
        [{ i: 0, v: "x", t: 7 }, "o", "x"],
        [{ i: 1, v: "y", t: 7 }, "o", "y"],
      ],
    });
  });

  it("keeps the variables of an iteration to itself", async () => {
    const { run } = await harness({
      states: {
        M: {
          Type: "Map",
          Items: [1, 2],
          ItemProcessor: {
            StartAt: "Set",
            States: {
              Set: { Type: "Pass", Assign: { mine: "{% $states.input %}" }, Next: "Get" },
              Get: { Type: "Pass", Output: "{% $mine %}", End: true },
            },
          },
          Next: "After",
        },
        After: { Type: "Pass", Output: ["{% $states.input %}", "{% $exists($mine) %}"], End: true },
      },
    });
    expect(await run()).toMatchObject({ output: [[1, 2], false] });
  });

  it.each<[number | string, number]>([
    [2, 2],
    ["{% 3 %}", 3],
    [0, 5],
  ])("runs MaxConcurrency %s of 5 items at a time", async (MaxConcurrency, expected) => {
    let running = 0;
    let most = 0;
    const { run } = await harness({
      states: each({ Items: [1, 2, 3, 4, 5], MaxConcurrency }),
      functions: {
        async f() {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setTimeout(resolve, 5));
          running -= 1;
        },
      },
    });
    expect(await run()).toMatchObject({ status: "SUCCEEDED" });
    expect(most).toBe(expected);
  });

  it("fails with the error of the iteration that failed, and halts the others", async () => {
    const states = each({ Items: ["bad", "stuck"], Catch: [{ ErrorEquals: ["ValueError"], Next: "Caught" }] });
    const { run } = await harness({
      states: { ...states, Caught: { Type: "Pass", Output: "{% $states.input.Error %}", End: true } },
      functions: { f: (item) => (item === "bad" ? boom() : new Promise(() => undefined)) },
    });
    expect(await run()).toMatchObject({ status: "SUCCEEDED", output: "ValueError" });
  });

  it("runs all items again when it is retried", async () => {
    const clock = new ManualClock();
    const calls: Json[] = [];
    const { start, ended } = await harness({
      clock,
      states: each({ Items: ["a", "b"], MaxConcurrency: 1, Retry: [{ ErrorEquals: ["States.ALL"], MaxAttempts: 1 }] }),
      functions: {
        f(item) {
          calls.push(item);
          if (calls.length === 2) boom();
          return item;
        },
      },
    });
    const arn = await start();
    await clock.elapse(1_000);
    expect(await ended(arn)).toMatchObject({ status: "SUCCEEDED", output: ["a", "b"] });
    expect(calls).toEqual(["a", "b", "a", "b"]);
  });

  it.each<[string, string]>([
    ["'string'", "string"],
    ["{'foo': 'bar'}", "object"],
    ["null", "null"],
    ["true", "boolean"],
  ])("fails for Items %s", async (items, type) => {
    const { run } = await harness({ states: each({ Items: `{% ${items} %}` }) });
    expect(await run()).toMatchObject({
      error: "States.QueryEvaluationError",
      cause: `An error occurred while executing the state 'M' (entered at the event id #2). The JSONata expression '${items}' specified for the field 'Items' returned an unexpected result type. Expected 'array', but was '${type}'.`,
      // ExecutionStarted, MapStateEntered, EvaluationFailed, MapStateFailed, ExecutionFailed
      historyEvents: 5,
    });
  });

  it("runs inside a Map", async () => {
    const inner = {
      Type: "Map",
      ItemProcessor: { StartAt: "P", States: { P: { Type: "Pass", Output: "{% $states.input * 10 %}", End: true } } },
      End: true,
    };
    const { run } = await harness({ states: each({}, inner) });
    expect(await run([[1, 2], [3]])).toMatchObject({ output: [[10, 20], [30]] });
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

describe("limits", () => {
  /** JSON text of exactly so many bytes. */
  const text = (bytes: number): string => "x".repeat(bytes - 2);
  const states = {
    T: task("f", {
      Output: "{% $states.result.Payload %}",
      Retry: [{ ErrorEquals: ["States.ALL"] }],
      Catch: [{ ErrorEquals: ["States.ALL"], Next: "Caught" }],
      End: true,
    }),
    Caught: { Type: "Pass", End: true },
  };

  it("takes an answer of 256 KiB", async () => {
    const { run } = await harness({ states, functions: { f: () => text(262_144) } });
    expect(await run()).toMatchObject({ status: "SUCCEEDED", output: text(262_144) });
  });

  it.each<[string, string]>([
    ["one byte more", text(262_145)],
    ["as many characters, but more bytes", `${text(262_144 - 1)}é`],
  ])("fails for %s, and nothing catches it", async (_, answer) => {
    const { run } = await harness({ states, functions: { f: () => answer } });
    expect(await run()).toMatchObject({
      status: "FAILED",
      error: "States.DataLimitExceeded",
      cause:
        "The state/task 'lambda' returned a result with a size exceeding the maximum number of bytes service limit.",
    });
  });

  it("fails for an output of more than 256 KiB", async () => {
    const { run } = await harness({
      states: {
        State_1: { Type: "Pass", Output: "{% $join($map([1..10], function($i) { $states.input })) %}", End: true },
      },
    });
    expect(await run("x".repeat(30_000))).toMatchObject({
      error: "States.DataLimitExceeded",
      cause:
        "The state/task 'State_1' returned a result with a size exceeding the maximum number of bytes service limit.",
    });
  });

  it("ends an execution with its 25,000th event", async () => {
    const go = (next: string) => ({ Type: "Choice", Choices: [{ Condition: true, Next: next }] });
    const { run } = await harness({ states: { A: go("B"), B: go("A") } });
    expect(await run()).toEqual({
      status: "FAILED",
      output: undefined,
      error: "States.Runtime",
      cause: "The execution reached the maximum number of history events (25000).",
      historyEvents: 25_000,
      statesEntered: 12_499,
    });
  });
});

it("refuses a definition before anything runs", async () => {
  const definition = definitionOf({ A: { Type: "Pass", Parameters: {}, End: true } });
  await expect(harness({ stateMachines: [{ name: "machine", definition }] })).rejects.toThrow("/States/A/Parameters");
});
