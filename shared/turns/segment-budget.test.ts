import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { CALL_EVENTS, mustHandOver, ROUND_EVENTS } from "./segment-budget.ts";

/**
 * The worst case, from the definition itself. History events as Step Functions writes them: a Lambda task has entered,
 * then scheduled, started and succeeded or failed for each attempt (a callback also submitted), then exited; other
 * states have entered and exited; a map adds started, succeeded, and two for each iteration.
 */
interface State {
  readonly Type: string;
  readonly Resource?: string;
  readonly Retry?: readonly { readonly MaxAttempts?: number }[];
  readonly ItemProcessor?: { readonly States: Readonly<Record<string, State>> };
}

const definition = JSON.parse(
  await readFile(new URL("../../statemachines/turn.asl.json", import.meta.url), "utf8"),
) as { States: Record<string, State> };

function worst(name: string, states = definition.States): number {
  const state = states[name];
  if (state?.Type !== "Task") {
    return 2;
  }
  const retries = (state.Retry ?? []).reduce((sum, retry) => sum + (retry.MaxAttempts ?? 3), 0);
  return 2 + (1 + retries) * (state.Resource?.endsWith("waitForTaskToken") ? 4 : 3);
}

/** Provider retries of a round, see finish-round.ts. */
const PROVIDER_RETRIES = 6;

describe("the budget of an execution", () => {
  test("covers a round in which every task uses up its retries", () => {
    const asking = (1 + PROVIDER_RETRIES) * (worst("CallModel") + worst("Route")) + PROVIDER_RETRIES * worst("Backoff");
    // GateTools may be entered again after a pass of calls, and each pass goes through AfterGate.
    const gating = worst("GateTools") + worst("AwaitActions") + 4 * worst("AfterGate") + 4;
    expect(asking + gating).toBeLessThanOrEqual(ROUND_EVENTS);
    // What the figures are today, so that a change of the definition is noticed.
    expect({ asking, gating }).toEqual({ asking: 1159, gating: 163 });
  });

  test("covers a server-side call that fails to the last", () => {
    const inner = definition.States["RunTools"]?.ItemProcessor?.States ?? {};
    expect(2 + worst("RunTool", inner) + worst("ToolFailed", inner)).toBeLessThanOrEqual(CALL_EVENTS);
  });

  test("hands over while one more round with 40 calls still fits below 20,000 (F20)", () => {
    expect(mustHandOver(15_850)).toBe(false);
    expect(mustHandOver(15_851)).toBe(true);
  });
});
