import { setTimeout } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { ManualClock, useHarness } from "../local/stepfunctions/harness.ts";
import { callbackTask } from "../local/stepfunctions/sample-states.ts";
import { findings, HEARTBEAT_SECONDS } from "./parity.ts";

const harness = useHarness();

test("F24: the embedded edition's Step Functions does what AWS says of starts, stops and heartbeats", async () => {
  const tokens: string[] = [];
  const clock = new ManualClock();
  const { client, stepFunctions } = await harness({
    clock,
    states: { Park: callbackTask("park", { TimeoutSeconds: 100, HeartbeatSeconds: HEARTBEAT_SECONDS, End: true }) },
    functions: { park: (payload) => void tokens.push((payload as { token: string }).token) },
  });

  const found = await findings({
    client,
    stateMachineArn: stepFunctions.stateMachineArn("machine"),
    token: () => vi.waitUntil(() => tokens.shift(), { timeout: 20_000 }),
    async pass(seconds) {
      clock.advance(seconds * 1000);
      await setTimeout(20);
    },
  });

  expect(found.map(({ what, here }) => [what, here])).toEqual(found.map(({ what, aws }) => [what, aws]));
  expect(found).toHaveLength(7);
});
