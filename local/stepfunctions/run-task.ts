/**
 * One attempt of a Task.
 *
 * Without a token the function's answer is the result. Its invocation leaves no trace in the position: after a crash it
 * is simply invoked again, with its whole time.
 *
 * With a token: scheduled (token and deadlines written) → invoked → submitted (the function returned; written) → answered.
 * The token takes answers from before the function is invoked, because whoever it hands the token to may be faster than
 * its return. After a crash a scheduled task is invoked again with the same token, a submitted one only waits on, an
 * answered one goes on with its answer.
 */

import type { Branch } from "./branch.ts";
import { holdCallback, type TaskOutcome } from "./callback.ts";
import type { TaskState } from "./definition.ts";
import type { Execution } from "./execution.ts";
import { type EvaluationScope, Expression, evaluationError } from "./expression.ts";
import { fitsPayload, type Json } from "./json.ts";
import type { CallbackActivity } from "./position.ts";
import { dataLimitExceeded, StatesError, timedOut } from "./states-error.ts";

export async function attemptTask(execution: Execution, branch: Branch, state: TaskState): Promise<Json> {
  const outcome = state.waitForTaskToken
    ? await callAndWait(execution, branch, state)
    : await call(execution, branch, state);
  if (outcome instanceof StatesError) {
    execution.countFailure(1);
    throw outcome;
  }
  execution.count(1);
  return outcome.result;
}

async function call(execution: Execution, branch: Branch, state: TaskState): Promise<TaskOutcome> {
  const scope = execution.evaluationScope(branch);
  const { clock } = execution.environment;
  const invocation = await readInvocation(state, scope);
  const timeoutSeconds = await seconds("TimeoutSeconds", state.timeoutSeconds, scope);
  await execution.beforeEffect(branch);
  execution.count(2);
  const deadline = timeoutSeconds === null ? null : clock.now() + timeoutSeconds * 1_000;
  return branch.scope.halt.wait<TaskOutcome>(false, (wait) => {
    void invoke(execution, invocation, deadline).then((outcome) => wait.settle(outcome));
    return deadline === null ? () => undefined : clock.at(deadline, () => wait.settle(timedOut("timeout")));
  });
}

async function callAndWait(execution: Execution, branch: Branch, state: TaskState): Promise<TaskOutcome> {
  if (branch.position.activity?.kind !== "callback") await schedule(execution, branch, state);
  return holdCallback(execution, branch, async () => {
    const { activity } = branch.position;
    if (activity?.kind !== "callback") return undefined;
    await execution.beforeEffect(branch);
    const scope = execution.evaluationScope(branch, { taskToken: activity.token });
    return invoke(execution, await readInvocation(state, scope), null);
  });
}

async function schedule(execution: Execution, branch: Branch, state: TaskState): Promise<void> {
  const { clock, tokens } = execution.environment;
  const token = tokens.issue();
  const scope = execution.evaluationScope(branch, { taskToken: token });
  // Evaluated before anything is written, so that a failing expression fails the attempt and not a later one.
  await readInvocation(state, scope);
  const timeoutSeconds = await seconds("TimeoutSeconds", state.timeoutSeconds, scope);
  const heartbeatSeconds = await seconds("HeartbeatSeconds", state.heartbeatSeconds, scope);
  if (timeoutSeconds !== null && heartbeatSeconds !== null && heartbeatSeconds >= timeoutSeconds) {
    throw evaluationError(scope, "HeartbeatSeconds must be smaller than TimeoutSeconds.");
  }
  execution.count(2);
  const now = clock.now();
  const activity: CallbackActivity = {
    kind: "callback",
    token,
    deadline: timeoutSeconds === null ? null : now + timeoutSeconds * 1_000,
    heartbeatSeconds,
    heartbeatDeadline: heartbeatSeconds === null ? null : now + heartbeatSeconds * 1_000,
    submitted: false,
    answer: null,
  };
  branch.setActivity(activity);
  execution.markUnsaved();
}

interface Invocation {
  readonly functionName: string;
  /** The payload as text: the function gets a copy of its own. */
  readonly payload: string;
}

async function readInvocation(state: TaskState, scope: EvaluationScope): Promise<Invocation> {
  const { functionName } = state;
  const name = functionName instanceof Expression ? await functionName.evaluate(scope) : functionName;
  if (typeof name !== "string") {
    throw evaluationError(scope, "The FunctionName field must be a string.");
  }
  const payload = JSON.stringify(state.payload === null ? {} : await state.payload.evaluate(scope));
  if (!fitsPayload(payload)) throw dataLimitExceeded(state.name);
  return { functionName: name, payload };
}

/** Answers as the Lambda service does. Never rejects. */
async function invoke(execution: Execution, invocation: Invocation, deadline: number | null): Promise<TaskOutcome> {
  try {
    const answer = await execution.environment.invoke(
      invocation.functionName,
      JSON.parse(invocation.payload) as Json,
      deadline === null ? {} : { deadline: new Date(deadline) },
    );
    const payload = JSON.stringify(answer ?? null);
    if (!fitsPayload(payload)) return dataLimitExceeded("lambda");
    return { result: { ExecutedVersion: "$LATEST", Payload: JSON.parse(payload) as Json, StatusCode: 200 } };
  } catch (error) {
    const errorType = error instanceof Error ? error.name : "Error";
    const errorMessage = error instanceof Error ? error.message : String(error);
    return new StatesError(errorType, JSON.stringify({ errorType, errorMessage }), {
      kind: "task",
      confidential: true,
    });
  }
}

async function seconds(
  field: "TimeoutSeconds" | "HeartbeatSeconds",
  value: number | Expression | null,
  scope: EvaluationScope,
): Promise<number | null> {
  if (!(value instanceof Expression)) return value;
  const result = await value.evaluate(scope);
  if (typeof result !== "number" || !Number.isInteger(result) || result < 1 || result > 99_999_999) {
    throw evaluationError(scope, `The ${field} field must be an integer from 1 to 99999999.`);
  }
  return result;
}
