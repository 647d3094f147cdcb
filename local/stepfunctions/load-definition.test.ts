import { readFile } from "node:fs/promises";
import aslValidator from "asl-validator";
import { describe, expect, it } from "vitest";
import { loadDefinition, substitute } from "./load-definition.ts";
import { definitionOf, task } from "./sample-states.ts";

const TURN = new URL("../../statemachines/turn.asl.json", import.meta.url);
const TURN_SUBSTITUTIONS = {
  CallModelFunction: "call-model",
  GateToolsFunction: "gate-tools",
  RunToolFunction: "run-tool",
  AwaitActionsFunction: "await-actions",
  HibernateFunction: "hibernate",
  BackoffFunction: "backoff",
  HandOverFunction: "hand-over",
  CompleteTurnFunction: "complete-turn",
  FailTurnFunction: "fail-turn",
  ParkSeconds: "86400",
};

/** A machine of one Pass state `A` with these fields more. */
function pass(fields: object): Record<string, object> {
  return { A: { Type: "Pass", End: true, ...fields } };
}

function map(processor: object, fields: object = {}): Record<string, object> {
  return { M: { Type: "Map", End: true, ItemProcessor: processor, ...fields } };
}

const ONE_PASS = { StartAt: "P", States: { P: { Type: "Pass", End: true } } };

describe("the product's state machine", () => {
  it("loads", async () => {
    const machine = loadDefinition(await readFile(TURN, "utf8"), TURN_SUBSTITUTIONS);

    expect(machine.startAt).toBe("CallModel");
    expect([...machine.states.keys()]).toEqual([
      "CallModel",
      "Route",
      "GateTools",
      "AfterGate",
      "RunTools",
      "AwaitActions",
      "Hibernate",
      "Backoff",
      "HandOver",
      "CompleteTurn",
      "FailTurn",
      "Done",
    ]);
    expect(machine.states.get("AwaitActions")).toMatchObject({ waitForTaskToken: true, functionName: "await-actions" });
  });

  it("is valid to asl-validator", async () => {
    expect(aslValidator(JSON.parse(await readFile(TURN, "utf8"))).errors).toEqual([]);
  });

  it("is refused when a substitution is missing", async () => {
    const { BackoffFunction: _, ...others } = TURN_SUBSTITUTIONS;
    const text = await readFile(TURN, "utf8");
    // biome-ignore lint/suspicious/noTemplateCurlyInString: CloudFormation's form
    expect(() => loadDefinition(text, others)).toThrow("no substitution is given for ${BackoffFunction}");
  });
});

describe("a definition is refused", () => {
  const next = (fields: object) => ({ A: task("f", { Next: "B" }), B: { Type: "Succeed" }, ...fields });

  it.each<[string, object, string]>([
    ["an unknown field", pass({ ResultPath: "$.a" }), '/States/A/ResultPath: field "ResultPath" is not supported'],
    ["an unknown state type", { A: { Type: "Parallel" } }, '/States/A/Type: "Parallel" is not supported'],
    [
      "an unknown resource",
      { A: task("f", { Resource: "arn:aws:states:::sqs:sendMessage", End: true }) },
      '/States/A/Resource: "arn:aws:states:::sqs:sendMessage" is not supported',
    ],
    [
      "JSONPath in a state",
      pass({ QueryLanguage: "JSONPath" }),
      '/States/A/QueryLanguage: "JSONPath" is not supported',
    ],
    ["a Next to nowhere", { A: { Type: "Pass", Next: "B" } }, '/States/A: there is no state "B" to go to'],
    [
      "a Catch to nowhere",
      { A: task("f", { End: true, Catch: [{ ErrorEquals: ["E"], Next: "B" }] }) },
      '/States/A: there is no state "B"',
    ],
    [
      "a Default to nowhere",
      { A: { Type: "Choice", Choices: [{ Condition: "{% true %}", Next: "A" }], Default: "B" } },
      '/States/A: there is no state "B"',
    ],
    ["a state that nothing reaches", next({ C: { Type: "Succeed" } }), "/States/C: nothing leads to this state"],
    ["neither Next nor End", { A: { Type: "Pass" } }, "/States/A: a state has exactly one of Next and"],
    [
      "both Next and End",
      { A: { Type: "Pass", Next: "A", End: true } },
      "/States/A: a state has exactly one of Next and",
    ],
    ["Next in a Succeed state", { A: { Type: "Succeed", Next: "A" } }, '/States/A/Next: field "Next" is not supported'],
    [
      "End in a Choice state",
      { A: { Type: "Choice", Choices: [{ Condition: true, Next: "A" }], End: true } },
      '/States/A/End: field "End"',
    ],
    ["Arguments in a Pass state", pass({ Arguments: {} }), '/States/A/Arguments: field "Arguments" is not supported'],
    [
      "Assign in a Succeed state",
      { A: { Type: "Succeed", Assign: {} } },
      '/States/A/Assign: field "Assign" is not supported',
    ],
    [
      "an unknown argument of invoke",
      { A: task("f", { End: true, Arguments: { FunctionName: "f", Qualifier: "1" } }) },
      '/States/A/Arguments/Qualifier: field "Qualifier"',
    ],
    [
      "an unknown field of a retrier",
      { A: task("f", { End: true, Retry: [{ ErrorEquals: ["E"], Wait: 1 }] }) },
      '/States/A/Retry/0/Wait: field "Wait" is not supported',
    ],
    [
      "an unknown field of a catcher",
      { A: task("f", { End: true, Catch: [{ ErrorEquals: ["E"], Next: "A", ResultPath: "$" }] }) },
      "/States/A/Catch/0/ResultPath",
    ],
    [
      "an unknown field of a choice rule",
      { A: { Type: "Choice", Choices: [{ Variable: "$.a", Condition: "{% true %}", Next: "A" }] } },
      '/States/A/Choices/0/Variable: field "Variable"',
    ],
    [
      "States.ALL beside another error",
      { A: task("f", { End: true, Retry: [{ ErrorEquals: ["States.ALL", "E"] }] }) },
      "/States/A/Retry/0/ErrorEquals: States.ALL stands alone, and last",
    ],
    [
      "States.ALL before another catcher",
      {
        A: task("f", {
          End: true,
          Catch: [
            { ErrorEquals: ["States.ALL"], Next: "A" },
            { ErrorEquals: ["E"], Next: "A" },
          ],
        }),
      },
      "/States/A/Catch/0/ErrorEquals: States.ALL stands alone, and last",
    ],
    [
      "a BackoffRate below 1",
      { A: task("f", { End: true, Retry: [{ ErrorEquals: ["E"], BackoffRate: 0.5 }] }) },
      "/States/A/Retry/0/BackoffRate: must be a number from 1",
    ],
    [
      "a JitterStrategy of another name",
      { A: task("f", { End: true, Retry: [{ ErrorEquals: ["E"], JitterStrategy: "HALF" }] }) },
      '/States/A/Retry/0/JitterStrategy: "HALF"',
    ],
    [
      "a fractional timeout",
      { A: task("f", { End: true, TimeoutSeconds: 1.5 }) },
      "/States/A/TimeoutSeconds: must be an integer from 1",
    ],
    [
      "heartbeats without a token",
      { A: task("f", { End: true, HeartbeatSeconds: 1 }) },
      "/States/A/HeartbeatSeconds: only a task with a token",
    ],
    ["a text that is no JSONata", pass({ Output: "{% 1 + %}" }), "/States/A/Output: not a JSONata expression"],
    [
      "half of a JSONata string",
      pass({ Output: { a: "{% 1" } }),
      '/States/A/Output/a: a JSONata string starts with "{%"',
    ],
    ["$eval", pass({ Output: "{% $eval('1') %}" }), "/States/A/Output: $eval is not available"],
    [
      "$eval deep inside",
      pass({ Output: ["{% $map([1], function($x) { $eval('1') }) %}"] }),
      "/States/A/Output/0: $eval is not available",
    ],
    [
      "a variable named states",
      pass({ Assign: { states: 1 } }),
      "/States/A/Assign/states: cannot be the name of a variable",
    ],
    ["a path for a variable", pass({ Assign: { "x.y": 1 } }), "/States/A/Assign/x.y: cannot be the name of a variable"],
    [
      "a Wait without an end",
      { A: { Type: "Wait", End: true } },
      "/States/A: a Wait state has exactly one of Seconds and Timestamp",
    ],
    [
      "a Wait with two ends",
      { A: { Type: "Wait", End: true, Seconds: 1, Timestamp: "2026-01-01T00:00:00Z" } },
      "/States/A: a Wait state has exactly one",
    ],
    [
      "a Timestamp without a zone",
      { A: { Type: "Wait", End: true, Timestamp: "2016-12-05T21:29:29" } },
      "/States/A/Timestamp: must be an RFC 3339 timestamp",
    ],
    [
      "a distributed Map",
      map({ ...ONE_PASS, ProcessorConfig: { Mode: "DISTRIBUTED" } }),
      '/States/M/ItemProcessor/ProcessorConfig/Mode: "DISTRIBUTED"',
    ],
    [
      "a tolerated failure",
      map(ONE_PASS, { ToleratedFailureCount: 1 }),
      '/States/M/ToleratedFailureCount: field "ToleratedFailureCount"',
    ],
    [
      "an unknown field inside a Map",
      map({ StartAt: "P", States: { P: { Type: "Pass", End: true, InputPath: "$" } } }),
      "/States/M/ItemProcessor/States/P/InputPath",
    ],
    [
      "a state name used inside a Map too",
      map({ StartAt: "M", States: { M: { Type: "Pass", End: true } } }),
      "/States/M/ItemProcessor/States/M: the state name is used twice",
    ],
    [
      "an outer variable assigned inside a Map",
      map({ StartAt: "P", States: { P: { Type: "Pass", End: true, Assign: { x: 1 } } } }, { Assign: { x: 2 } }),
      '/States/M/ItemProcessor/States: variable "x" belongs to the outer scope',
    ],
  ])("for %s", (_, states, message) => {
    expect(() => loadDefinition(definitionOf(states as Record<string, object>))).toThrow(message);
  });

  it.each<[string, object, string]>([
    ["no query language, which means JSONPath", { StartAt: "A", States: pass({}) }, 'field "QueryLanguage" is missing'],
    [
      "JSONPath",
      { QueryLanguage: "JSONPath", StartAt: "A", States: pass({}) },
      '/QueryLanguage: "JSONPath" is not supported',
    ],
    [
      "a start that is no state",
      { QueryLanguage: "JSONata", StartAt: "B", States: pass({}) },
      '/StartAt: there is no state "B"',
    ],
    [
      "a timeout of the whole machine",
      { QueryLanguage: "JSONata", TimeoutSeconds: 1, StartAt: "A", States: pass({}) },
      '/TimeoutSeconds: field "TimeoutSeconds"',
    ],
  ])("for %s", (_, definition, message) => {
    expect(() => loadDefinition(JSON.stringify(definition))).toThrow(message);
  });

  it("for text that is no JSON", () => {
    expect(() => loadDefinition("{")).toThrow("/: the definition is not JSON");
  });
});

it("replaces a substitution wherever its name stands", () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: CloudFormation's form
  expect(substitute('["${One}-${Two}", "${One}"]', { One: "1", Two: "2" })).toBe('["1-2", "1"]');
});
