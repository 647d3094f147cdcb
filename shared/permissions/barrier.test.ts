import { expect, test } from "vitest";
import type { ToolStep } from "../journal/tool-steps.ts";
import { type PendingAction, runnableSteps, waitingEventIds } from "./barrier.ts";

const action = (
  eventId: string,
  need: PendingAction["need"],
  resolution: PendingAction["resolution"],
): PendingAction => ({
  eventId,
  need,
  resolution,
  stepId: `step_of_${eventId}`,
  turnId: "turn_1",
  resolvedByEventId: null,
});

const step = (eventId: string, fields: Partial<ToolStep>): ToolStep => ({
  id: `step_of_${eventId}`,
  turnId: "turn_1",
  round: 1,
  position: 0,
  eventId,
  providerToolUseId: "toolu_1",
  name: "search",
  input: "{}",
  owner: "platform_managed",
  permission: "allow",
  state: "prepared",
  idempotencyKey: "key",
  result: null,
  isError: null,
  resultEventId: null,
  ...fields,
});

test("a call is awaited once, however much of it is open, and no more when all of it is resolved", () => {
  const actions = [
    action("a", "confirmation", null),
    action("a", "result", null),
    action("b", "confirmation", "allow"),
    action("b", "result", null),
    action("c", "result", "result"),
  ];
  expect(waitingEventIds(actions)).toEqual(["a", "b"]);
});

test("server-side calls run when they are allowed, by policy or by a person, and have no result", () => {
  const steps = [
    step("allowed", {}),
    step("asked", { permission: "ask" }),
    step("approved", { permission: "ask" }),
    step("denied", { permission: "ask" }),
    step("done", { state: "completed" }),
    step("started", { state: "started" }),
    step("workers", { owner: "client_self_hosted" }),
  ];
  const actions = [
    action("asked", "confirmation", null),
    action("approved", "confirmation", "allow"),
    action("denied", "confirmation", "deny"),
  ];
  expect(runnableSteps(steps, actions)).toEqual(["step_of_allowed", "step_of_approved", "step_of_started"]);
});
