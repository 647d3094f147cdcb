/** JSONata as Step Functions runs it: whole strings between `{%` and `%}`, compiled once when a definition is loaded. */

import jsonata from "jsonata";
import { DefinitionError } from "./definition-error.ts";
import { type Json, jsonType } from "./json.ts";
import { registerStepFunctions } from "./jsonata-functions.ts";
import { StatesError } from "./states-error.ts";

/** What an expression may see, and what its failure message needs to know. */
export interface EvaluationScope {
  readonly stateName: string;
  /** Event number of the state's entry. */
  readonly enteredEvent: number;
  /** `$states` and the variables that Assign has set, by name. */
  readonly bindings: Readonly<Record<string, unknown>>;
  /** Counts the EvaluationFailed event. */
  evaluationFailed(): void;
}

export class Expression {
  /** The text between the marks. */
  readonly source: string;
  /** The field that holds it, as `Output/result`. */
  readonly field: string;
  readonly #compiled: jsonata.Expression;

  constructor(source: string, field: string, path: string) {
    this.source = source;
    this.field = field;
    try {
      this.#compiled = jsonata(source);
    } catch (error) {
      throw new DefinitionError(path, `not a JSONata expression: ${messageOf(error)}`);
    }
    if (namesVariable(this.#compiled.ast(), "eval")) {
      throw new DefinitionError(path, "$eval is not available in Step Functions; use $parse");
    }
    registerStepFunctions(this.#compiled);
  }

  async evaluate(scope: EvaluationScope): Promise<Json> {
    let value: unknown;
    try {
      // No input document: in Step Functions `$` and `$$` stand for nothing, all data is below `$states` and variables.
      value = await this.#compiled.evaluate(undefined, scope.bindings);
    } catch (error) {
      throw this.#failure(scope, `threw an error during evaluation. ${codeOf(error)}${messageOf(error)}`);
    }
    if (value === undefined) throw this.#failure(scope, "returned nothing (undefined).");
    if (!isJson(value)) throw this.#failure(scope, "returned an unsupported result type.");
    return value;
  }

  /** The result is not what the field takes. The value itself stays out of the message. */
  unexpected(scope: EvaluationScope, expected: string, value: Json): StatesError {
    return this.#failure(
      scope,
      `returned an unexpected result type. Expected '${expected}', but was '${jsonType(value)}'.`,
    );
  }

  #failure(scope: EvaluationScope, problem: string): StatesError {
    return evaluationError(
      scope,
      `The JSONata expression '${this.source}' specified for the field '${this.field}' ${problem}`,
    );
  }
}

/** States.QueryEvaluationError of a state, with the opening words that Step Functions uses. */
export function evaluationError(scope: EvaluationScope, problem: string): StatesError {
  scope.evaluationFailed();
  const where = `An error occurred while executing the state '${scope.stateName}' (entered at the event id #${scope.enteredEvent}).`;
  return new StatesError("States.QueryEvaluationError", `${where} ${problem}`);
}

/** The text between the marks, null for a literal; half a pair of marks is a mistake. */
export function expressionSource(text: string, path: string): string | null {
  const opens = text.startsWith("{%");
  const closes = text.endsWith("%}") && text.length >= 4;
  if (opens !== closes) throw new DefinitionError(path, 'a JSONata string starts with "{%" and ends with "%}"');
  return opens ? text.slice(2, -2).trim() : null;
}

function namesVariable(node: unknown, name: string): boolean {
  if (typeof node !== "object" || node === null) return false;
  if ("type" in node && node.type === "variable" && "value" in node && node.value === name) return true;
  return Object.values(node).some((child) => namesVariable(child, name));
}

/** JSONata functions are results too, and cannot be carried by JSON. */
function isJson(value: unknown): value is Json {
  if (value === null) return true;
  if (typeof value !== "object") return typeof value !== "function" && value !== undefined;
  if ("_jsonata_lambda" in value || "_jsonata_function" in value) return false;
  return (Array.isArray(value) ? value : Object.values(value)).every(isJson);
}

function messageOf(error: unknown): string {
  return typeof error === "object" && error !== null && "message" in error ? String(error.message) : String(error);
}

function codeOf(error: unknown): string {
  return typeof error === "object" && error !== null && "code" in error ? `${String(error.code)}: ` : "";
}
