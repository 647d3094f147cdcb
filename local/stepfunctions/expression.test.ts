import { describe, expect, it } from "vitest";
import { Expression } from "./expression.ts";
import type { Json } from "./json.ts";

async function evaluate(source: string, input: Json = null): Promise<Json> {
  return new Expression(source, "Output", "/States/A/Output").evaluate({
    stateName: "A",
    enteredEvent: 2,
    bindings: { states: { input } },
    evaluationFailed: () => undefined,
  });
}

describe("the functions of Step Functions", () => {
  it.each<[string, Json]>([
    ["$parse('{\"a\":[1,null]}')", { a: [1, null] }],
    ["$partition([1,2,3,4,5,6,7,8,9], 4)", [[1, 2, 3, 4], [5, 6, 7, 8], [9]]],
    // Recorded on AWS: a single chunk keeps its arrays, a range of one is its element.
    ["$partition([0], 1)", [[0]]],
    ["$range(1, 9, 9)", 1],
    ["$range(0, 10, 3)", [0, 3, 6, 9]],
    ["$range(1, 9, 2)", [1, 3, 5, 7, 9]],
    ["$range(5, 1, -2)", [5, 3, 1]],
    ["$hash('input data', 'MD5')", "812f45842bc6d66ee14572ce20db8e86"],
    ["$hash('input data', 'SHA-1')", "aaff4a450a104cd177d28d18d74485e8cae074b7"],
    ["$hash('input data', 'SHA-256')", "b4a697a057313163aee33cd8d40c66e9f0f177e00cac2de32475ffff6169c3e3"],
    ["$length($hash('a', 'SHA-384'))", 96],
    ["$length($hash('a', 'SHA-512'))", 128],
    ["$random(7) = $random(7)", true],
    ["$random(7) = $random(8)", false],
    ["$type($random())", "number"],
    ["$match($uuid(), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/).index", 0],
    ["$uuid() = $uuid()", false],
  ])("%s", async (source, expected) => {
    expect(await evaluate(source)).toEqual(expected);
  });
});

describe("an expression fails with States.QueryEvaluationError", () => {
  // The first two messages are those that AWS gives.
  it.each<[string, string]>([
    [
      "$doesNotExist",
      "The JSONata expression '$doesNotExist' specified for the field 'Output' returned nothing (undefined).",
    ],
    [
      "$randomSeeded(1)",
      "The JSONata expression '$randomSeeded(1)' specified for the field 'Output' threw an error during evaluation. T1006: Attempted to invoke a non-function",
    ],
    [
      "$fn := function($x){$x}",
      "The JSONata expression '$fn := function($x){$x}' specified for the field 'Output' returned an unsupported result type.",
    ],
    ["{'a': $sum}", "returned an unsupported result type."],
    ["'a' + 1", "threw an error during evaluation. T2001"],
    ["$parse('{')", "threw an error during evaluation."],
    ["$range(1, 2, 0)", "threw an error during evaluation."],
    ["$range(1, 1001, 1)", "threw an error during evaluation."],
    ["$partition([1], 0)", "threw an error during evaluation."],
    ["$hash('a', 'CRC32')", "threw an error during evaluation."],
    ["$", "returned nothing (undefined)."],
    ["fieldWithoutStates", "returned nothing (undefined)."],
  ])("%s", async (source, cause) => {
    const failure = await evaluate(source).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      errorName: "States.QueryEvaluationError",
      causeText: expect.stringContaining(cause),
    });
  });
});

it.each<[Json, Json]>([
  [["only"], ["only"]],
  [[["nested"]], [["nested"]]],
  [[], []],
  [
    ["a", "b"],
    ["a", "b"],
  ],
])("keeps the array %j as it is", async (run, expected) => {
  expect(await evaluate("$states.input.run", { run })).toEqual(expected);
});
