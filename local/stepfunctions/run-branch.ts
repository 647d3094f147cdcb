/** Drives a branch from state to state until its machine ends. */

import type { Branch } from "./branch.ts";
import type { Exit, FailState, State, WaitState } from "./definition.ts";
import type { Execution } from "./execution.ts";
import { type EvaluationScope, Expression, evaluationError } from "./expression.ts";
import type { Json } from "./json.ts";
import { leave, type StateExit } from "./leave-state.ts";
import { runWithRetries } from "./retries.ts";
import { attemptMap } from "./run-map.ts";
import { attemptTask } from "./run-task.ts";
import { sleepUntil } from "./sleep.ts";
import { StatesError } from "./states-error.ts";
import { parseTimestamp } from "./timestamp.ts";

/** Longest wait of a Wait state: an execution lives no longer than a year. */
const LONGEST_WAIT_SECONDS = 31_536_000;

/** Resolves to the output of the machine. Rejects with StatesError, or with Halted. */
export async function runBranch(execution: Execution, branch: Branch): Promise<Json> {
  for (;;) {
    const state = branch.state;
    const exit = await runState(execution, branch, state);
    const redoable = state.type === "Choice" || state.type === "Pass" || state.type === "Succeed";
    if (!redoable) execution.markUnsaved();
    if (exit.next === null) return exit.output;
    branch.position = execution.enterState(exit.next, exit.output, exit.variables);
  }
}

/** Reaches the first wait of a resumed state without giving up control, so that its token is open from the start. */
function runState(execution: Execution, branch: Branch, state: State): Promise<StateExit> {
  switch (state.type) {
    case "Task":
      return runWithRetries(execution, branch, state, () => attemptTask(execution, branch, state));
    case "Map":
      return runWithRetries(execution, branch, state, () => attemptMap(execution, branch, state));
    case "Choice":
      return runChoice(execution, branch, state);
    case "Pass":
      return leaveWithInput(execution, branch, state);
    case "Wait":
      return runWait(execution, branch, state);
    case "Succeed":
      return leaveWithInput(execution, branch, { output: state.output, assign: null, next: null });
    case "Fail":
      return runFail(execution, branch, state);
  }
}

function leaveWithInput(execution: Execution, branch: Branch, exit: Exit): Promise<StateExit> {
  return leave(execution, branch, exit, branch.position.input, {});
}

async function runChoice(
  execution: Execution,
  branch: Branch,
  state: Extract<State, { type: "Choice" }>,
): Promise<StateExit> {
  const scope = execution.evaluationScope(branch);
  for (const { condition, exit } of state.choices) {
    if (await holds(condition, scope)) return leaveWithInput(execution, branch, exit);
  }
  if (state.otherwise.next === null) {
    throw new StatesError(
      "States.NoChoiceMatched",
      `An error occurred while executing the state '${state.name}' (entered at the event id #${scope.enteredEvent}). ` +
        "No choice rule matched, and the state has no Default.",
    );
  }
  return leaveWithInput(execution, branch, state.otherwise);
}

async function holds(condition: boolean | Expression, scope: EvaluationScope): Promise<boolean> {
  if (typeof condition === "boolean") return condition;
  const value = await condition.evaluate(scope);
  if (typeof value !== "boolean") throw condition.unexpected(scope, "boolean", value);
  return value;
}

async function runWait(execution: Execution, branch: Branch, state: WaitState): Promise<StateExit> {
  let activity = branch.position.activity;
  if (activity?.kind !== "wait") {
    activity = { kind: "wait", until: await waitEnd(execution, branch, state) };
    branch.setActivity(activity);
    execution.markUnsaved();
    await execution.beforeEffect(branch);
  }
  await sleepUntil(execution, branch, activity.until);
  return leaveWithInput(execution, branch, state);
}

async function waitEnd(execution: Execution, branch: Branch, state: WaitState): Promise<number> {
  const scope = execution.evaluationScope(branch);
  if ("seconds" in state.until) {
    const { seconds } = state.until;
    const value = seconds instanceof Expression ? await seconds.evaluate(scope) : seconds;
    if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > LONGEST_WAIT_SECONDS) {
      throw evaluationError(scope, "The Seconds field must be a non-negative integer of at most one year.");
    }
    return execution.environment.clock.now() + value * 1_000;
  }
  const { timestamp } = state.until;
  const value = timestamp instanceof Expression ? await timestamp.evaluate(scope) : timestamp;
  const instant = typeof value === "string" ? parseTimestamp(value) : null;
  if (instant === null) {
    throw evaluationError(
      scope,
      "The Timestamp field cannot be parsed as an ISO-8601 extended offset date-time format string.",
    );
  }
  return instant;
}

async function runFail(execution: Execution, branch: Branch, state: FailState): Promise<never> {
  const scope = execution.evaluationScope(branch);
  const text = async (field: string | Expression | null): Promise<string | null> => {
    if (!(field instanceof Expression)) return field;
    const value = await field.evaluate(scope);
    if (typeof value !== "string") throw field.unexpected(scope, "string", value);
    return value;
  };
  throw new StatesError(await text(state.error), await text(state.cause), { kind: "task" });
}
