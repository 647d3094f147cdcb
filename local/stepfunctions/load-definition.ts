/**
 * Loads the subset of the Amazon States Language that we emit.
 *
 * The subset is closed: an unknown field, state type, resource or query language, a transition to nowhere or a state
 * that nothing reaches refuses the definition, with the path of what is wrong. What loads here means the same on AWS.
 */

import type { State, StateMachineDefinition } from "./definition.ts";
import { DefinitionError } from "./definition-error.ts";
import { Fields } from "./fields.ts";
import { loadState } from "./load-state.ts";

const MAXIMUM_STATE_NAME_LENGTH = 80;

/** Takes the text of a definition with `${Name}` in it, as CloudFormation's DefinitionSubstitutions do. */
export function loadDefinition(
  json: string,
  substitutions: Readonly<Record<string, string>> = {},
): StateMachineDefinition {
  return parseDefinition(substitute(json, substitutions));
}

export function substitute(json: string, substitutions: Readonly<Record<string, string>>): string {
  return json.replace(/\$\{([A-Za-z0-9_]+)\}/g, (placeholder, name: string) => {
    const value = Object.hasOwn(substitutions, name) ? substitutions[name] : undefined;
    if (value === undefined) throw new DefinitionError("", `no substitution is given for ${placeholder}`);
    return value;
  });
}

/** Takes the text after substitution. */
export function parseDefinition(text: string): StateMachineDefinition {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new DefinitionError("", "the definition is not JSON");
  }
  const fields = new Fields(value, "");
  // Absent means JSONPath, which this interpreter does not speak.
  fields.oneOf("QueryLanguage", ["JSONata"]);
  const machine = loadMachine(fields, { stateNames: new Set(), outerVariables: new Set() });
  fields.done();
  return machine;
}

/** What a machine must not repeat of the machines around it. */
export interface Surroundings {
  /** Names are unique in the whole definition, item processors included. Filled while states are read. */
  readonly stateNames: Set<string>;
  /** An inner scope may read but not assign the variables of an outer one. */
  readonly outerVariables: ReadonlySet<string>;
}

/** Reads StartAt and States of a state machine or an item processor. */
export function loadMachine(fields: Fields, surroundings: Surroundings): StateMachineDefinition {
  const startAt = fields.string("StartAt");
  const all = fields.child("States");
  const variables = assignedVariables(all);
  for (const name of variables) {
    if (surroundings.outerVariables.has(name)) {
      throw new DefinitionError(all.path, `variable "${name}" belongs to the outer scope and cannot be assigned here`);
    }
  }
  const inner = { ...surroundings, outerVariables: new Set([...surroundings.outerVariables, ...variables]) };

  const states = new Map<string, State>();
  for (const name of all.names()) {
    if (name.length === 0 || name.length > MAXIMUM_STATE_NAME_LENGTH) {
      throw all.refuse(name, `a state name has 1 to ${MAXIMUM_STATE_NAME_LENGTH} characters`);
    }
    if (surroundings.stateNames.has(name)) throw all.refuse(name, "the state name is used twice");
    surroundings.stateNames.add(name);
    states.set(name, loadState(name, new Fields(all.required(name), all.at(name)), inner));
  }
  all.done();
  checkTransitions(fields, all, startAt, states);
  return { startAt, states };
}

function checkTransitions(fields: Fields, all: Fields, startAt: string, states: ReadonlyMap<string, State>): void {
  if (!states.has(startAt)) throw fields.refuse("StartAt", `there is no state "${startAt}"`);
  const reached = new Set([startAt]);
  for (const name of reached) {
    const state = states.get(name);
    for (const next of state ? successors(state) : []) {
      if (!states.has(next)) throw all.refuse(name, `there is no state "${next}" to go to`);
      reached.add(next);
    }
  }
  for (const name of states.keys()) {
    if (!reached.has(name)) throw all.refuse(name, "nothing leads to this state");
  }
}

function successors(state: State): string[] {
  switch (state.type) {
    case "Choice":
      return present([...state.choices.map((rule) => rule.exit.next), state.otherwise.next]);
    case "Task":
    case "Map":
      return present([state.next, ...state.catch.map((catcher) => catcher.next)]);
    case "Pass":
    case "Wait":
      return present([state.next]);
    case "Succeed":
    case "Fail":
      return [];
  }
}

function present(names: readonly (string | null)[]): string[] {
  return names.filter((name) => name !== null);
}

/** Names assigned by the states of one machine; the machines inside it have scopes of their own. */
function assignedVariables(states: Fields): Set<string> {
  const names = new Set<string>();
  const collect = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    if ("Assign" in value && typeof value.Assign === "object" && value.Assign !== null) {
      for (const name of Object.keys(value.Assign)) names.add(name);
    }
    for (const list of ["Choices", "Catch"] as const) {
      const children: unknown = Object.hasOwn(value, list) ? (value as Record<string, unknown>)[list] : undefined;
      if (Array.isArray(children)) children.forEach(collect);
    }
  };
  for (const name of states.names()) collect(states.required(name));
  return names;
}
