import { describe, expect, it } from "vitest";
import type { Retrier } from "./definition.ts";
import { decideRetry } from "./retry-policy.ts";
import { dataLimitExceeded, matchesError, StatesError, timedOut } from "./states-error.ts";

const never = (): number => {
  throw new Error("no jitter was asked for");
};

function retrier(fields: Partial<Retrier>): Retrier {
  return {
    errorEquals: ["States.ALL"],
    intervalSeconds: 1,
    maxAttempts: 3,
    backoffRate: 2,
    maxDelaySeconds: null,
    jitterStrategy: "NONE",
    ...fields,
  };
}

describe("which failures a name matches", () => {
  const failures = {
    own: new StatesError("CustomError", null, { kind: "task" }),
    timeout: timedOut("timeout"),
    heartbeat: timedOut("heartbeat"),
    query: new StatesError("States.QueryEvaluationError", null),
    runtime: new StatesError("States.Runtime", null),
    dataLimit: dataLimitExceeded("A"),
  };

  it.each<[string, (keyof typeof failures)[]]>([
    ["States.ALL", ["own", "timeout", "heartbeat", "query"]],
    ["States.TaskFailed", ["own", "query"]],
    ["States.Timeout", ["timeout", "heartbeat"]],
    ["States.HeartbeatTimeout", ["heartbeat"]],
    ["CustomError", ["own"]],
    ["customerror", []],
    ["States.Runtime", []],
    ["States.DataLimitExceeded", []],
  ])("%s", (name, expected) => {
    const matched = Object.entries(failures).filter(([, failure]) => matchesError([name], failure));
    expect(matched.map(([key]) => key)).toEqual(expected);
  });
});

describe("the delay before a retry", () => {
  const failure = new StatesError("E", null, { kind: "task" });
  const delays = (policy: Retrier, attempts: number, random: () => number = never): (number | undefined)[] =>
    Array.from({ length: attempts }, (_, used) => decideRetry([policy], [used], failure, random)?.delayMilliseconds);

  it("doubles from one second and ends after three attempts, by default", () => {
    expect(delays(retrier({}), 4)).toEqual([1_000, 2_000, 4_000, undefined]);
  });

  it("multiplies IntervalSeconds by BackoffRate", () => {
    expect(delays(retrier({ intervalSeconds: 3, backoffRate: 1.5, maxAttempts: 2 }), 3)).toEqual([
      3_000,
      4_500,
      undefined,
    ]);
  });

  it("is at most MaxDelaySeconds", () => {
    expect(delays(retrier({ maxDelaySeconds: 5, maxAttempts: 5 }), 5)).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
  });

  it("is a random share of itself with full jitter", () => {
    expect(delays(retrier({ jitterStrategy: "FULL" }), 3, () => 0.25)).toEqual([250, 500, 1_000]);
  });

  it("never comes with MaxAttempts 0", () => {
    expect(delays(retrier({ maxAttempts: 0 }), 1)).toEqual([undefined]);
  });

  it("stays a number when the backoff outgrows it", () => {
    expect(delays(retrier({ backoffRate: 10, maxDelaySeconds: 60, maxAttempts: 9_999 }), 501).at(-1)).toBe(60_000);
  });
});

describe("several retriers", () => {
  const busy = retrier({ errorEquals: ["Busy"], maxAttempts: 1 });
  const all = retrier({ errorEquals: ["States.ALL"], maxAttempts: 2 });

  it("count their attempts apart", () => {
    const first = decideRetry([busy, all], [], new StatesError("Busy", null), never);
    expect(first?.retries).toEqual([1, 0]);
    const second = decideRetry([busy, all], first?.retries ?? [], new StatesError("Other", null), never);
    expect(second).toEqual({ delayMilliseconds: 1_000, retries: [1, 1] });
  });

  it("do not stand in for each other: the first that names the error decides", () => {
    expect(decideRetry([busy, all], [1, 0], new StatesError("Busy", null), never)).toBeNull();
  });
});
