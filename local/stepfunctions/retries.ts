/** Retry and Catch around the attempts of a Task or a Map. */

import type { Branch } from "./branch.ts";
import type { MapState, TaskState } from "./definition.ts";
import type { Execution } from "./execution.ts";
import type { Json } from "./json.ts";
import { leave, type StateExit } from "./leave-state.ts";
import { decideRetry, findCatcher } from "./retry-policy.ts";
import { sleepUntil } from "./sleep.ts";
import { StatesError } from "./states-error.ts";

/** `attempt` makes the result of the state, or fails; it goes on with an activity of its own kind and begins with any other. */
export async function runWithRetries(
  execution: Execution,
  branch: Branch,
  state: TaskState | MapState,
  attempt: () => Promise<Json>,
): Promise<StateExit> {
  for (;;) {
    const { activity } = branch.position;
    // It stays in the position until the attempt puts something else there: after a crash it has simply passed.
    if (activity?.kind === "backoff") await sleepUntil(execution, branch, activity.until);
    try {
      const result = await attempt();
      return await leave(execution, branch, state, result, { result });
    } catch (failure) {
      if (!(failure instanceof StatesError)) throw failure;
      if (await backOff(execution, branch, state, failure)) continue;
      return await catchFailure(execution, branch, state, failure);
    }
  }
}

async function backOff(
  execution: Execution,
  branch: Branch,
  state: TaskState | MapState,
  failure: StatesError,
): Promise<boolean> {
  const { clock, random } = execution.environment;
  const decision = decideRetry(state.retry, branch.position.retries, failure, random);
  if (decision === null) return false;
  branch.position = {
    ...branch.position,
    retries: decision.retries,
    activity: { kind: "backoff", until: clock.now() + decision.delayMilliseconds },
  };
  execution.markUnsaved();
  await execution.beforeEffect(branch);
  return true;
}

/** A failure while the catcher's own fields are evaluated is not caught again: it fails the branch. */
async function catchFailure(
  execution: Execution,
  branch: Branch,
  state: TaskState | MapState,
  failure: StatesError,
): Promise<StateExit> {
  const catcher = findCatcher(state.catch, failure);
  if (catcher === null) throw failure;
  const { errorOutput } = failure;
  return leave(execution, branch, catcher, errorOutput, { errorOutput });
}
