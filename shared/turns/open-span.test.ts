import { expect, test } from "vitest";
import { spanIsOpen } from "./open-span.ts";

test.each([
  ["open", "started", 0, true],
  ["open", "failed", 0, false],
  ["open", "ambiguous", 0, false],
  ["answered", "completed", 0, false],
  ["answered", "completed", 2, true],
  ["gated", "completed", 2, false],
] as const)("a round that is %s, its call %s, with %i calls: open %s", (state, call, calls, open) => {
  expect(spanIsOpen({ state }, call, calls)).toBe(open);
});
