import { InvokeCommand, LambdaClient } from "@aws-sdk/client-lambda";
import type { OperatorAnswer, OperatorRequest } from "../../shared/operator/commands.ts";
import { OperatorFunctionError } from "./function-error.ts";

/** On a deployed edition: IAM decides who may invoke the function, and CloudTrail knows who did. */
export async function operateThere(functionName: string, request: OperatorRequest): Promise<OperatorAnswer> {
  // Once: a command that made something must not be repeated behind the operator's back.
  const client = new LambdaClient({ maxAttempts: 1 });
  try {
    const { FunctionError, Payload } = await client.send(
      new InvokeCommand({ FunctionName: functionName, Payload: JSON.stringify(request) }),
    );
    if (FunctionError !== undefined || Payload === undefined) {
      throw new OperatorFunctionError(
        `The function ${functionName} failed (${FunctionError ?? "no answer"}). See its log.`,
      );
    }
    return JSON.parse(Payload.transformToString()) as OperatorAnswer;
  } finally {
    client.destroy();
  }
}
