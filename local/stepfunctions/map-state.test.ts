/**
 * Map: what the States Language and the AWS documentation promise, with outcomes written out.
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
