/**
 * The limits of Step Functions: what the States Language and the AWS documentation promise, with outcomes written out.
 *
 * Event counts and failure causes are those of executions recorded on AWS, where a recording was at hand.
 */

import { describe, expect, it } from "vitest";
import { useHarness } from "./harness.ts";
import { definitionOf, task } from "./sample-states.ts";

const harness = useHarness();

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
