/** Reads one state: which fields its type has, and what they may hold. */

import type { Catcher, ChoiceState, Exit, MapState, Retrier, State, TaskState, WaitState } from "./definition.ts";
import { DefinitionError } from "./definition-error.ts";
import type { Fields } from "./fields.ts";
import { isJsonObject } from "./json.ts";
import { loadMachine, type Surroundings } from "./load-definition.ts";
import type { Template } from "./template.ts";
import { parseTimestamp } from "./timestamp.ts";

const INVOKE = "arn:aws:states:::lambda:invoke";
const INVOKE_AND_WAIT = "arn:aws:states:::lambda:invoke.waitForTaskToken";

const MAXIMUM_SECONDS = 99_999_999;
const ONE_YEAR_IN_SECONDS = 31_622_400;
const SECONDS_FROM_ONE = { minimum: 1, maximum: MAXIMUM_SECONDS };
const VARIABLE_NAME = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u;
const MAXIMUM_VARIABLE_NAME_LENGTH = 80;

export function loadState(name: string, fields: Fields, surroundings: Surroundings): State {
  const type = fields.oneOf("Type", ["Task", "Choice", "Map", "Pass", "Wait", "Succeed", "Fail"]);
  fields.oneOf("QueryLanguage", ["JSONata"], "JSONata");
  const state = loadByType(type, name, fields, surroundings);
  fields.done();
  return state;
}

function loadByType(type: State["type"], name: string, fields: Fields, surroundings: Surroundings): State {
  switch (type) {
    case "Task":
      return loadTask(name, fields);
    case "Choice":
      return loadChoice(name, fields);
    case "Map":
      return loadMap(name, fields, surroundings);
    case "Pass":
      return { type, name, ...loadExit(fields) };
    case "Wait":
      return { type, name, ...loadExit(fields), until: loadWait(fields) };
    case "Succeed":
      return { type, name, output: fields.template("Output") };
    case "Fail":
      return { type, name, error: fields.stringOrExpression("Error"), cause: fields.stringOrExpression("Cause") };
  }
}

function loadTask(name: string, fields: Fields): TaskState {
  const waitForTaskToken = fields.oneOf("Resource", [INVOKE, INVOKE_AND_WAIT]) === INVOKE_AND_WAIT;
  const functionArguments = fields.child("Arguments");
  const functionName = functionArguments.stringOrExpression("FunctionName");
  if (functionName === null) throw functionArguments.refuse("FunctionName", "is missing");
  const payload = functionArguments.template("Payload");
  functionArguments.done();

  const timeoutSeconds = fields.numberOrExpression("TimeoutSeconds", SECONDS_FROM_ONE);
  const heartbeatSeconds = fields.numberOrExpression("HeartbeatSeconds", SECONDS_FROM_ONE);
  if (heartbeatSeconds !== null && !waitForTaskToken) {
    throw fields.refuse("HeartbeatSeconds", "only a task with a token can send heartbeats");
  }
  if (
    typeof timeoutSeconds === "number" &&
    typeof heartbeatSeconds === "number" &&
    heartbeatSeconds >= timeoutSeconds
  ) {
    throw fields.refuse("HeartbeatSeconds", "must be smaller than TimeoutSeconds");
  }
  return {
    type: "Task",
    name,
    ...loadExit(fields),
    ...loadRetryAndCatch(fields),
    waitForTaskToken,
    functionName,
    payload,
    timeoutSeconds,
    heartbeatSeconds,
  };
}

function loadChoice(name: string, fields: Fields): ChoiceState {
  const choices = fields.children("Choices").map((rule) => {
    const condition = rule.booleanOrExpression("Condition");
    const exit = { output: rule.template("Output"), assign: loadAssign(rule), next: rule.string("Next") };
    rule.done();
    return { condition, exit };
  });
  const otherwise = {
    output: fields.template("Output"),
    assign: loadAssign(fields),
    next: fields.has("Default") ? fields.string("Default") : null,
  };
  return { type: "Choice", name, choices, otherwise };
}

function loadMap(name: string, fields: Fields, surroundings: Surroundings): MapState {
  const processor = fields.child("ItemProcessor");
  if (processor.has("ProcessorConfig")) {
    const config = processor.child("ProcessorConfig");
    config.oneOf("Mode", ["INLINE"]);
    config.done();
  }
  // A processor is a machine of its own: its states are found, and named in failures, from here.
  const itemProcessor = loadMachine(processor, surroundings);
  processor.done();
  return {
    type: "Map",
    name,
    ...loadExit(fields),
    ...loadRetryAndCatch(fields),
    items: loadItems(fields),
    itemSelector: fields.template("ItemSelector"),
    itemProcessor,
    maxConcurrency: fields.numberOrExpression("MaxConcurrency", { minimum: 0, maximum: MAXIMUM_SECONDS }) ?? 0,
  };
}

function loadItems(fields: Fields): Template | null {
  const items = fields.optional("Items");
  if (items === undefined || Array.isArray(items) || (typeof items === "string" && items.startsWith("{%"))) {
    return fields.template("Items");
  }
  throw fields.refuse("Items", "must be an array or a JSONata string");
}

function loadWait(fields: Fields): WaitState["until"] {
  const seconds = fields.numberOrExpression("Seconds", { minimum: 0, maximum: MAXIMUM_SECONDS });
  const timestamp = fields.stringOrExpression("Timestamp");
  if (typeof timestamp === "string" && parseTimestamp(timestamp) === null) {
    throw fields.refuse("Timestamp", "must be an RFC 3339 timestamp");
  }
  if (seconds !== null && timestamp === null) return { seconds };
  if (timestamp !== null && seconds === null) return { timestamp };
  throw new DefinitionError(fields.path, "a Wait state has exactly one of Seconds and Timestamp");
}

/** Output, Assign and exactly one of Next and `"End": true`. */
function loadExit(fields: Fields): Exit {
  const end = fields.optional("End");
  if (end !== undefined && end !== true) throw fields.refuse("End", "must be true");
  if ((end === true) === fields.has("Next")) {
    throw new DefinitionError(fields.path, 'a state has exactly one of Next and "End": true');
  }
  return {
    output: fields.template("Output"),
    assign: loadAssign(fields),
    next: end === true ? null : fields.string("Next"),
  };
}

function loadAssign(fields: Fields): Template | null {
  const assign = fields.optional("Assign");
  if (assign === undefined) return null;
  if (!isJsonObject(assign)) throw fields.refuse("Assign", "must be an object");
  for (const name of Object.keys(assign)) {
    if (name === "states" || name.length > MAXIMUM_VARIABLE_NAME_LENGTH || !VARIABLE_NAME.test(name)) {
      throw new DefinitionError(`${fields.at("Assign")}/${name}`, "cannot be the name of a variable");
    }
  }
  return fields.template("Assign");
}

function loadRetryAndCatch(fields: Fields): { readonly retry: Retrier[]; readonly catch: Catcher[] } {
  return {
    retry: fields.has("Retry") ? fields.children("Retry").map(loadRetrier) : [],
    catch: fields.has("Catch") ? fields.children("Catch").map(loadCatcher) : [],
  };
}

function loadRetrier(fields: Fields, index: number, all: readonly Fields[]): Retrier {
  const retrier: Retrier = {
    errorEquals: loadErrorEquals(fields, index, all),
    intervalSeconds: fields.number("IntervalSeconds", SECONDS_FROM_ONE, 1),
    maxAttempts: fields.number("MaxAttempts", { minimum: 0, maximum: MAXIMUM_SECONDS }, 3),
    backoffRate: fields.number("BackoffRate", { minimum: 1, maximum: MAXIMUM_SECONDS, integer: false }, 2),
    maxDelaySeconds: fields.has("MaxDelaySeconds")
      ? fields.number("MaxDelaySeconds", { minimum: 1, maximum: ONE_YEAR_IN_SECONDS }, 1)
      : null,
    jitterStrategy: fields.oneOf("JitterStrategy", ["FULL", "NONE"], "NONE"),
  };
  if (retrier.maxDelaySeconds !== null && retrier.maxDelaySeconds <= retrier.intervalSeconds) {
    throw fields.refuse("MaxDelaySeconds", "must be greater than IntervalSeconds");
  }
  fields.done();
  return retrier;
}

function loadCatcher(fields: Fields, index: number, all: readonly Fields[]): Catcher {
  const catcher = {
    errorEquals: loadErrorEquals(fields, index, all),
    output: fields.template("Output"),
    assign: loadAssign(fields),
    next: fields.string("Next"),
  };
  fields.done();
  return catcher;
}

function loadErrorEquals(fields: Fields, index: number, all: readonly Fields[]): string[] {
  const names = fields.list("ErrorEquals");
  if (!names.every((name) => typeof name === "string")) throw fields.refuse("ErrorEquals", "must hold strings");
  if (names.includes("States.ALL") && (names.length > 1 || index < all.length - 1)) {
    throw fields.refuse("ErrorEquals", "States.ALL stands alone, and last");
  }
  return [...names];
}
