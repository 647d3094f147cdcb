import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { newId } from "../shared/contract/ids.ts";

interface State {
  readonly Type: string;
  readonly Resource?: string;
  readonly Output?: unknown;
  readonly TimeoutSeconds?: unknown;
  readonly Retry?: readonly { readonly MaxAttempts: number }[];
  readonly ItemProcessor?: { readonly States: Readonly<Record<string, State>> };
}

const { States } = JSON.parse(readFileSync(new URL("./turn.asl.json", import.meta.url), "utf8")) as {
  States: Record<string, State>;
};
const all = Object.entries(States).flatMap(([name, state]): [string, State][] => [
  [name, state],
  ...Object.entries(state.ItemProcessor?.States ?? {}),
]);
const tasks = all.filter(([, { Type }]) => Type === "Task");

describe("the turn's states", () => {
  test("F20: none polls: what waits does so with a token and a time limit", () => {
    expect(all.filter(([, { Type }]) => Type === "Wait")).toEqual([]);
    const waiting = tasks.filter(([, { Resource }]) => Resource?.endsWith(".waitForTaskToken"));
    expect(waiting.map(([name]) => name)).toEqual(["AwaitActions", "Backoff"]);
    for (const [, { TimeoutSeconds }] of waiting) expect(TimeoutSeconds).toBeDefined();
  });

  test.each(tasks)(
    "F21: %s gives on what its function chose, never the whole answer of the service",
    (_, { Output }) => {
      // Without one, Lambda's envelope with its headers would go into the history of every later state.
      expect([
        "{% $states.result.Payload %}",
        "{% $states.result %}",
        JSON.stringify({ stepId: "{% $states.input.stepId %}" }),
      ]).toContain(typeof Output === "string" ? Output : JSON.stringify(Output));
    },
  );

  test("F22: an execution's name has room for its turn and any segment, in letters that Step Functions takes", () => {
    const names = Array.from({ length: 50 }, () => `${newId("turn")}-${2_147_483_647}`);

    for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,80}$/);
    // Ids are not cut: two that begin alike stay apart.
    expect(new Set(names).size).toBe(50);
  });
});
