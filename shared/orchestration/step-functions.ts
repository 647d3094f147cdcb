import {
  DescribeExecutionCommand,
  ExecutionAlreadyExists,
  ExecutionDoesNotExist,
  InvalidToken,
  SendTaskSuccessCommand,
  type SFNClient,
  StartExecutionCommand,
  TaskDoesNotExist,
  TaskTimedOut,
} from "@aws-sdk/client-sfn";
import type { Orchestrator } from "../ports/orchestrator.ts";

/** Step Functions, or whatever speaks its protocol at the client's endpoint. */
export function stepFunctionsOrchestrator(options: {
  readonly client: SFNClient;
  readonly stateMachineArn: string;
  /** The trace that a started execution goes on with. */
  readonly traceHeader?: () => string | undefined;
}): Orchestrator {
  const { client, stateMachineArn } = options;
  return {
    async start({ name, input }) {
      try {
        await client.send(
          new StartExecutionCommand({ stateMachineArn, name, input, traceHeader: options.traceHeader?.() }),
        );
        return "started";
      } catch (error) {
        if (error instanceof ExecutionAlreadyExists) {
          return "exists";
        }
        throw error;
      }
    },
    async find({ name }) {
      try {
        const executionArn = `${stateMachineArn.replace(":stateMachine:", ":execution:")}:${name}`;
        const { status } = await client.send(new DescribeExecutionCommand({ executionArn }));
        return status === "RUNNING" || status === "PENDING_REDRIVE" ? "running" : "ended";
      } catch (error) {
        if (error instanceof ExecutionDoesNotExist) {
          return "unknown";
        }
        throw error;
      }
    },
    async release({ taskToken, output }) {
      try {
        await client.send(new SendTaskSuccessCommand({ taskToken, output }));
        return "released";
      } catch (error) {
        if (error instanceof TaskTimedOut || error instanceof TaskDoesNotExist || error instanceof InvalidToken) {
          return "stale";
        }
        throw error;
      }
    },
  };
}
