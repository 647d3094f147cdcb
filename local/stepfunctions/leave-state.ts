/** The end of a state: Assign and Output are evaluated side by side, both with the variables as they were at entry. */

import type { Branch, ExtraBindings } from "./branch.ts";
import type { Exit } from "./definition.ts";
import { type Execution, MAXIMUM_VARIABLE_BYTES } from "./execution.ts";
import { fitsPayload, isJsonObject, type Json, type JsonObject } from "./json.ts";
import { dataLimitExceeded } from "./states-error.ts";

export interface StateExit {
  /** Null: the machine ends here. */
  readonly next: string | null;
  readonly output: Json;
  readonly variables: JsonObject;
}

/** `unchanged` is the output of a state that has no Output. */
export async function leave(
  execution: Execution,
  branch: Branch,
  exit: Exit,
  unchanged: Json,
  extra: ExtraBindings,
): Promise<StateExit> {
  const scope = execution.evaluationScope(branch, extra);
  const output = exit.output === null ? unchanged : await exit.output.evaluate(scope);
  if (!fitsPayload(JSON.stringify(output))) throw dataLimitExceeded(branch.position.state);
  const variables = exit.assign === null ? {} : await exit.assign.evaluate(scope);
  execution.count(1);
  return { next: exit.next, output, variables: assign(branch, variables) };
}

function assign(branch: Branch, assigned: Json): JsonObject {
  const { state, variables } = branch.position;
  if (!isJsonObject(assigned) || Object.keys(assigned).length === 0) return variables;
  if (!fitsPayload(JSON.stringify(assigned))) throw dataLimitExceeded(state);
  const all = { ...variables, ...assigned };
  if (Buffer.byteLength(JSON.stringify(all)) > MAXIMUM_VARIABLE_BYTES) throw dataLimitExceeded(state);
  return all;
}
