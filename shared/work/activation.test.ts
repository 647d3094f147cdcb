import { expect, test } from "vitest";
import { judgeActivation } from "./activation.ts";

const fruitless = { leftOpen: 1, answered: false };

test("fruitless activations back off, and the fifth in a row is the last (F44)", () => {
  expect([0, 1, 2, 3, 4].map((before) => judgeActivation(before, fruitless))).toEqual([
    { fruitless: 1, backoffSeconds: 0 },
    { fruitless: 2, backoffSeconds: 2 },
    { fruitless: 3, backoffSeconds: 8 },
    { fruitless: 4, backoffSeconds: 30 },
    { fruitless: 5, backoffSeconds: null },
  ]);
});

test("an answered call, or nothing to answer, begins the count anew", () => {
  expect(judgeActivation(4, { leftOpen: 2, answered: true })).toEqual({ fruitless: 0, backoffSeconds: 0 });
  expect(judgeActivation(4, { leftOpen: 0, answered: false })).toEqual({ fruitless: 0, backoffSeconds: 0 });
});
