import { expect, test } from "vitest";
import { routeStop } from "./stop-reason.ts";

test.each([
  ["end_turn", null, 0, { next: "end", idle: { type: "end_turn" } }],
  ["stop_sequence", null, 0, { next: "end", idle: { type: "end_turn" } }],
  ["tool_use", null, 2, { next: "tools" }],
  // A provider that says so without a call would otherwise leave the turn waiting for nothing.
  ["tool_use", null, 0, { next: "end", idle: { type: "end_turn" } }],
  ["pause_turn", null, 0, { next: "continue" }],
  ["refusal", '{"category":"cyber"}', 0, { next: "end", idle: { type: "refusal", details: '{"category":"cyber"}' } }],
  ["max_tokens", null, 1, { next: "end", idle: { type: "end_turn" } }],
  ["model_context_window_exceeded", null, 0, { next: "exhausted" }],
  ["something_new", null, 0, { next: "end", idle: { type: "end_turn" } }],
  [null, null, 0, { next: "end", idle: { type: "end_turn" } }],
] as const)("stop reason %s with details %s and %i calls", (stopReason, details, calls, routed) => {
  expect(routeStop(stopReason, details, calls)).toEqual(routed);
});
