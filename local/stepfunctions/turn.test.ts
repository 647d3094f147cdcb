/** The product's state machine, run with functions that only play their parts. */

import { readFile } from "node:fs/promises";
import { SendTaskSuccessCommand } from "@aws-sdk/client-sfn";
import { describe, expect, it } from "vitest";
import { type Functions, ManualClock, useHarness } from "./harness.ts";
import { isJsonObject, type Json } from "./json.ts";

const createHarness = useHarness();

const NAMES = [
  "CallModel",
  "GateTools",
  "RunTool",
  "AwaitActions",
  "Hibernate",
  "Backoff",
  "HandOver",
  "CompleteTurn",
  "FailTurn",
];
const SUBSTITUTIONS = Object.fromEntries(NAMES.map((name) => [`${name}Function`, name]));
const TURN = { turnId: "turn_1", segment: 1 };

/** Lets all 20 retries of a state happen: the waits double from a second and stop growing at a minute. */
async function retriesPass(clock: ManualClock): Promise<void> {
  for (const seconds of [1, 2, 4, 8, 16, 32, ...Array.from({ length: 14 }, () => 60)]) {
    await clock.elapse(seconds * 1000);
  }
}

/** Each function answers its calls with these, one after the other; an Error is thrown. */
async function turn(script: Readonly<Record<string, readonly (Json | Error)[]>>, clock = new ManualClock()) {
  const calls: [string, Json][] = [];
  const functions: Functions = Object.fromEntries(
    NAMES.map((name) => {
      const answers = [...(script[name] ?? [])];
      return [
        name,
        (payload: Json) => {
          calls.push([name, payload]);
          const answer = answers.shift();
          if (answer instanceof Error) throw answer;
          return answer;
        },
      ];
    }),
  );
  const definition = await readFile(new URL("../../statemachines/turn.asl.json", import.meta.url), "utf8");
  const harness = await createHarness({
    clock,
    random: () => 0,
    functions,
    stateMachines: [{ name: "machine", definition, substitutions: { ...SUBSTITUTIONS, ParkSeconds: "86400" } }],
  });
  const arn = await harness.start(TURN);
  return {
    ...harness,
    clock,
    calls,
    called: () => calls.map(([name]) => name),
    ended: () => harness.ended(arn),
    async token(name: string): Promise<string> {
      await expect.poll(() => calls.map(([called]) => called)).toContain(name);
      const [, payload] = calls.find(([called]) => called === name) ?? [];
      return isJsonObject(payload) ? String(payload["taskToken"]) : "";
    },
  };
}

const end = { ...TURN, next: "end" };
const stop = { ...TURN, next: "stop" };

describe("a turn", () => {
  it("without tools enters three states", async () => {
    const { ended, calls } = await turn({ CallModel: [end], CompleteTurn: [stop] });
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop, statesEntered: 3, historyEvents: 14 });
    expect(calls).toEqual([
      ["CallModel", TURN],
      ["CompleteTurn", TURN],
    ]);
  });

  it("runs a single tool, waits for people, and asks the model again", async () => {
    const { ended, calls, called, token, client } = await turn({
      CallModel: [{ ...TURN, next: "tools" }, end],
      GateTools: [{ ...TURN, run: ["step_1"], round: 1, next: "wait" }],
      CompleteTurn: [stop],
    });
    const answer = JSON.stringify({ ...TURN, run: [], round: 1, next: "continue" });
    await client.send(new SendTaskSuccessCommand({ taskToken: await token("AwaitActions"), output: answer }));
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop });
    expect(called()).toEqual(["CallModel", "GateTools", "RunTool", "AwaitActions", "CallModel", "CompleteTurn"]);
    expect(calls[2]).toEqual(["RunTool", { ...TURN, stepId: "step_1" }]);
  });

  it("goes on when a tool cannot be run", async () => {
    const failures = Array.from({ length: 21 }, () => new Error("broken"));
    const { ended, called, clock } = await turn({
      CallModel: [{ ...TURN, next: "tools" }, end],
      GateTools: [{ ...TURN, run: ["step_1"], round: 1, next: "continue" }],
      RunTool: failures,
      CompleteTurn: [stop],
    });
    await retriesPass(clock);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop });
    expect(called().filter((name) => name === "RunTool")).toHaveLength(21);
  });

  it("hibernates after a day of waiting", async () => {
    const { ended, called, clock, token } = await turn({
      CallModel: [{ ...TURN, next: "tools" }],
      GateTools: [{ ...TURN, run: [], round: 1, next: "wait" }],
      Hibernate: [{ ...TURN, run: [], round: 1, next: "stop" }],
    });
    await token("AwaitActions");
    await clock.elapse(86_400_000);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED" });
    expect(called()).toEqual(["CallModel", "GateTools", "AwaitActions", "Hibernate"]);
  });

  it("waits out the provider for as long as CallModel says", async () => {
    const { ended, called, clock, token } = await turn({
      CallModel: [{ ...TURN, next: "retry", delaySeconds: 17, retry: 1 }, end],
      CompleteTurn: [stop],
    });
    await token("Backoff");
    await clock.elapse(17_000);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED" });
    expect(called()).toEqual(["CallModel", "Backoff", "CallModel", "CompleteTurn"]);
  });

  it("ends a provider's wait at once when it is answered", async () => {
    const { ended, called, token, client } = await turn({
      CallModel: [{ ...TURN, next: "retry", delaySeconds: 3_600, retry: 1 }],
    });
    const output = JSON.stringify({ ...TURN, run: [], round: 1, next: "stop" });
    await client.send(new SendTaskSuccessCommand({ taskToken: await token("Backoff"), output }));
    expect(await ended()).toMatchObject({ status: "SUCCEEDED" });
    expect(called()).toEqual(["CallModel", "Backoff"]);
  });

  it("does not ask the model sooner because the wait for the provider cannot be begun", async () => {
    const throttled = Array.from({ length: 3 }, () => new Error("throttled"));
    const { ended, called, clock } = await turn({
      CallModel: [{ ...TURN, next: "retry", delaySeconds: 60, retry: 1 }, end],
      Backoff: throttled,
      CompleteTurn: [stop],
    });
    for (const seconds of [5, 10, 20]) await clock.elapse(seconds * 1000);
    await expect.poll(() => called().filter((name) => name === "Backoff")).toHaveLength(4);
    await clock.elapse(60_000);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED" });
    expect(called()).toEqual(["CallModel", "Backoff", "Backoff", "Backoff", "Backoff", "CallModel", "CompleteTurn"]);
  });

  it("fails when the wait for the provider cannot be begun for a quarter of an hour", async () => {
    const failures = Array.from({ length: 9 }, () => Object.assign(new Error("broken"), { name: "Lambda.Unknown" }));
    const { ended, calls, clock } = await turn({
      CallModel: [{ ...TURN, next: "retry", delaySeconds: 3_600, retry: 1 }],
      Backoff: failures,
      FailTurn: [stop],
    });
    for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300]) await clock.elapse(seconds * 1000);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop });
    expect(calls.map(([name]) => name)).toEqual(["CallModel", ...failures.map(() => "Backoff"), "FailTurn"]);
    expect(calls.at(-1)).toEqual(["FailTurn", { ...TURN, error: "Lambda.Unknown" }]);
  });

  it("asks a busy round again after two seconds, then three", async () => {
    const busy = Object.assign(new Error("busy"), { name: "TurnBusyError" });
    const { ended, called, clock } = await turn({ CallModel: [busy, busy, end], CompleteTurn: [stop] });
    await clock.elapse(2_000);
    await clock.elapse(3_000);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED" });
    expect(called()).toEqual(["CallModel", "CallModel", "CallModel", "CompleteTurn"]);
  });

  it("fails with the name of the error and nothing that it said", async () => {
    const failures = Array.from({ length: 21 }, () => Object.assign(new Error("secret words"), { name: "ModelError" }));
    const { ended, calls, logged, clock } = await turn({ CallModel: failures, FailTurn: [stop] });
    await retriesPass(clock);
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop });
    expect(calls).toHaveLength(22);
    expect(calls.at(-1)).toEqual(["FailTurn", { ...TURN, error: "ModelError" }]);
    expect(logged.join("\n")).not.toContain("secret words");
  });

  it("hands over", async () => {
    const { ended, called } = await turn({ CallModel: [{ ...TURN, next: "hand_over" }], HandOver: [stop] });
    expect(await ended()).toMatchObject({ status: "SUCCEEDED", output: stop });
    expect(called()).toEqual(["CallModel", "HandOver"]);
  });
});
