import {
  DescribeExecutionCommand,
  SendTaskHeartbeatCommand,
  SendTaskSuccessCommand,
  type SFNClient,
  StartExecutionCommand,
  StopExecutionCommand,
} from "@aws-sdk/client-sfn";

/**
 * Where emulators of Step Functions have differed from AWS (localstack#11104, floci#2782): what the service says it does,
 * and what an endpoint was seen to do. Asked of the embedded edition's interpreter by a test, and of an emulator by
 * `npm run test:localstack`, which only reports: no turn may depend on an emulator's word.
 */
export interface Finding {
  readonly what: string;
  /** From the API reference of Step Functions. */
  readonly aws: string;
  readonly here: string;
}

export interface StepFunctionsEndpoint {
  readonly client: SFNClient;
  /**
   * ARN of a state machine with one task: it gives its token away and waits for an answer, 100 seconds at most, and
   * `HEARTBEAT_SECONDS` at most between two heartbeats.
   */
  readonly stateMachineArn: string;
  /** The token of the task that began last. */
  token(): Promise<string>;
  /** Lets that many seconds pass. */
  pass(seconds: number): Promise<void>;
}

export const HEARTBEAT_SECONDS = 6;

const PATIENCE_SECONDS = 60;

export async function findings(endpoint: StepFunctionsEndpoint): Promise<Finding[]> {
  const { client, stateMachineArn, token, pass } = endpoint;
  const start = async (name: string, input: object) => {
    const command = new StartExecutionCommand({ stateMachineArn, name, input: JSON.stringify(input) });
    return (await client.send(command)).executionArn ?? "";
  };
  const status = async (executionArn: string) =>
    (await client.send(new DescribeExecutionCommand({ executionArn }))).status ?? "";
  /** What became of an execution that is about to end. */
  const end = async (executionArn: string) => {
    for (let second = 0; second < PATIENCE_SECONDS && (await status(executionArn)) === "RUNNING"; second += 1) {
      await pass(1);
    }
    return status(executionArn);
  };

  const first = await start("parity-1", { a: 1 });
  const firstToken = await token();
  const again = await outcome(start("parity-1", { a: 1 }).then((arn) => (arn === first ? "same execution" : arn)));
  const other = await outcome(start("parity-1", { a: 2 }).then(() => "started"));
  await client.send(new StopExecutionCommand({ executionArn: first }));
  const stopped = await end(first);
  const succeed = client.send(new SendTaskSuccessCommand({ taskToken: firstToken, output: "{}" }));
  const late = await outcome(succeed.then(() => "accepted"));
  const reused = await outcome(start("parity-1", { a: 1 }).then(() => "started"));

  const second = await start("parity-2", {});
  const taskToken = await token();
  for (let beats = 0; beats < 3; beats += 1) {
    await pass(HEARTBEAT_SECONDS / 2);
    await client.send(new SendTaskHeartbeatCommand({ taskToken }));
  }
  const beating = await status(second);
  await pass(HEARTBEAT_SECONDS);
  const silent = await end(second);

  return [
    { what: "start with a running execution's name and input", aws: "same execution", here: again },
    { what: "start with its name and another input", aws: "ExecutionAlreadyExists", here: other },
    { what: "an execution that was stopped", aws: "ABORTED", here: stopped },
    { what: "an answer to the task of a stopped execution", aws: "TaskTimedOut", here: late },
    { what: "start with a closed execution's name", aws: "ExecutionAlreadyExists", here: reused },
    { what: "a task with heartbeats, after more than their interval", aws: "RUNNING", here: beating },
    { what: "the same task when they stop", aws: "FAILED", here: silent },
  ];
}

/** Its value, or the name of its error. */
function outcome(attempt: Promise<string>): Promise<string> {
  return attempt.catch((error: Error) => error.name);
}
