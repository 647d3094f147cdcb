import { expect, test } from "vitest";
import { retryDelaySeconds } from "./backoff-delay.ts";

test("what the provider asks for is waited, in whole seconds, at least one and at most an hour", () => {
  expect(retryDelaySeconds(0, 2500, 0)).toBe(3);
  expect(retryDelaySeconds(5, 0, 0)).toBe(1);
  expect(retryDelaySeconds(0, 86_400_000, 0)).toBe(3600);
});

test.each([
  [0, 0, 1],
  [1, 0, 1],
  [1, 0.999, 2],
  [3, 0, 4],
  [3, 0.999, 8],
  [5, 0, 16],
  [5, 0.999, 32],
  [10, 0, 30],
  [10, 0.999, 60],
])("retry %i with random %d waits %i s", (retries, random, seconds) => {
  expect(retryDelaySeconds(retries, null, random)).toBe(seconds);
});
