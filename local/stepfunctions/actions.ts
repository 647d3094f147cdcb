/** The actions of the API: checks a request as AWS does, and answers in its shapes. */

import { randomUUID } from "node:crypto";
import { isExecutionArn, isStateMachineArn, stateMachineArn } from "./arn.ts";
import type { Executions } from "./executions.ts";
import { Halted } from "./halt.ts";
import { fitsPayload, type Json, MAXIMUM_PAYLOAD_BYTES } from "./json.ts";
import type { TaskAnswer } from "./position.ts";
import { ServiceError, type ServiceErrorName } from "./service-error.ts";
import type { TaskTokens, TokenHolder } from "./task-token.ts";

export type Request = Readonly<Record<string, unknown>>;
type Response = Readonly<Record<string, unknown>>;
export type Action = (request: Request) => Promise<Response>;

const MAXIMUM_NAME_LENGTH = 80;
const MAXIMUM_TOKEN_LENGTH = 2_048;
const MAXIMUM_ERROR_LENGTH = 256;
const MAXIMUM_CAUSE_LENGTH = 32_768;
const MAXIMUM_ARN_LENGTH = 256;

/** White space, brackets, wildcards, `"#%\^|~` and friends, control characters and the two that end the Unicode plane. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what the rule forbids
const FORBIDDEN_IN_NAMES = /[\s<>{}[\]?*"#%\\^|~`$&,;:/\u0000-\u001f\u007f-\u009f\ufffe\uffff]/;

export function createActions(executions: Executions, tokens: TaskTokens): ReadonlyMap<string, Action> {
  return new Map<string, Action>([
    ["StartExecution", (request) => startExecution(executions, request)],
    ["StopExecution", (request) => stopExecution(executions, request)],
    ["DescribeExecution", (request) => describeExecution(executions, request)],
    ["SendTaskSuccess", (request) => sendTaskSuccess(executions, tokens, request)],
    ["SendTaskFailure", (request) => sendTaskFailure(executions, tokens, request)],
    ["SendTaskHeartbeat", (request) => sendTaskHeartbeat(executions, tokens, request)],
  ]);
}

async function startExecution(executions: Executions, request: Request): Promise<Response> {
  const arn = required(request, "stateMachineArn", MAXIMUM_ARN_LENGTH);
  const name = optional(request, "name") ?? randomUUID();
  if (name === "" || name.length > MAXIMUM_NAME_LENGTH || FORBIDDEN_IN_NAMES.test(name))
    throw new ServiceError("InvalidName", `Invalid Name: '${name}'`);
  const input = payload(request, "input", "InvalidExecutionInput", "Invalid State Machine Execution Input", "{}");
  if (!isStateMachineArn(arn)) throw invalidArn();
  const stateMachine = arn.slice(arn.lastIndexOf(":") + 1);
  if (stateMachineArn(stateMachine) !== arn) {
    throw new ServiceError("StateMachineDoesNotExist", `State Machine Does Not Exist: '${arn}'`);
  }
  const started = await executions.start(stateMachine, name, input);
  return { executionArn: started.arn, startDate: epochSeconds(started.startDate) };
}

async function stopExecution(executions: Executions, request: Request): Promise<Response> {
  const arn = requiredExecutionArn(request);
  const error = optional(request, "error", MAXIMUM_ERROR_LENGTH) ?? null;
  const cause = optional(request, "cause", MAXIMUM_CAUSE_LENGTH) ?? null;
  return { stopDate: epochSeconds(await executions.abort(arn, error, cause)) };
}

async function describeExecution(executions: Executions, request: Request): Promise<Response> {
  const row = await executions.describe(requiredExecutionArn(request));
  return {
    executionArn: row.arn,
    stateMachineArn: stateMachineArn(row.state_machine),
    name: row.name,
    status: row.status,
    startDate: epochSeconds(row.start_date),
    input: row.input,
    inputDetails: { included: true },
    redriveCount: 0,
    redriveStatus: "NOT_REDRIVABLE",
    ...(row.stop_date === null ? {} : { stopDate: epochSeconds(row.stop_date) }),
    ...(row.output === null ? {} : { output: row.output, outputDetails: { included: true } }),
    ...(row.error === null ? {} : { error: row.error }),
    ...(row.cause === null ? {} : { cause: row.cause }),
  };
}

async function sendTaskSuccess(executions: Executions, tokens: TaskTokens, request: Request): Promise<Response> {
  const token = required(request, "taskToken", MAXIMUM_TOKEN_LENGTH);
  const output = payload(request, "output", "InvalidOutput", "Invalid Output");
  await answer(executions, tokens, token, { output: JSON.parse(output) as Json });
  return {};
}

async function sendTaskFailure(executions: Executions, tokens: TaskTokens, request: Request): Promise<Response> {
  const token = required(request, "taskToken", MAXIMUM_TOKEN_LENGTH);
  const error = optional(request, "error", MAXIMUM_ERROR_LENGTH) ?? null;
  const cause = optional(request, "cause", MAXIMUM_CAUSE_LENGTH) ?? null;
  await answer(executions, tokens, token, { error, cause });
  return {};
}

async function sendTaskHeartbeat(executions: Executions, tokens: TaskTokens, request: Request): Promise<Response> {
  await holderOf(executions, tokens, required(request, "taskToken", MAXIMUM_TOKEN_LENGTH)).heartbeat();
  return {};
}

async function answer(executions: Executions, tokens: TaskTokens, token: string, answer: TaskAnswer): Promise<void> {
  try {
    if (await holderOf(executions, tokens, token).answer(answer)) return;
  } catch (failure) {
    // The execution ended, or went to another process, while the answer was written.
    if (!(failure instanceof Halted)) throw failure;
  }
  throw taskTimedOut(executions);
}

function holderOf(executions: Executions, tokens: TaskTokens, token: string): TokenHolder {
  const holder = tokens.find(token);
  if (holder === "never issued") throw new ServiceError("InvalidToken", "Invalid Token: 'Invalid token'");
  if (holder === "closed") throw taskTimedOut(executions);
  return holder;
}

function taskTimedOut(executions: Executions): ServiceError {
  if (executions.draining) return new ServiceError("ServiceUnavailable", "The service is stopping.", 503);
  return new ServiceError("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'");
}

function invalidArn(): ServiceError {
  return new ServiceError("InvalidArn", "Invalid Arn: 'Resource type not valid in this context'");
}

function requiredExecutionArn(request: Request): string {
  const arn = required(request, "executionArn", MAXIMUM_ARN_LENGTH);
  if (!isExecutionArn(arn)) throw invalidArn();
  return arn;
}

/** A member that holds JSON text of at most 256 KiB. */
function payload(
  request: Request,
  member: string,
  errorName: ServiceErrorName,
  words: string,
  absent?: string,
): string {
  const text = absent === undefined ? required(request, member) : (optional(request, member) ?? absent);
  if (!fitsPayload(text))
    throw constraint(member, `Member must have length less than or equal to ${MAXIMUM_PAYLOAD_BYTES}`);
  try {
    JSON.parse(text);
  } catch {
    throw new ServiceError(errorName, `${words}: 'The text is not JSON'`);
  }
  return text;
}

function required(request: Request, member: string, maximumLength?: number): string {
  const value = optional(request, member, maximumLength);
  if (value === undefined) throw constraint(member, "Member must not be null");
  if (value === "" && maximumLength !== undefined) {
    throw constraint(member, "Member must have length greater than or equal to 1");
  }
  return value;
}

function optional(request: Request, member: string, maximumLength = Number.POSITIVE_INFINITY): string | undefined {
  const value = request[member];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") {
    throw new ServiceError("SerializationException", `Member '${member}' must be a string`);
  }
  if (value.length > maximumLength) {
    throw constraint(member, `Member must have length less than or equal to ${maximumLength}`);
  }
  return value;
}

function constraint(member: string, rule: string): ServiceError {
  const problem = `Value at '${member}' failed to satisfy constraint: ${rule}`;
  return new ServiceError("ValidationException", `1 validation error detected: ${problem}`);
}

function epochSeconds(date: Date): number {
  return date.getTime() / 1_000;
}
