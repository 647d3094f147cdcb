import { Stack } from "aws-cdk-lib";
import { PolicyStatement } from "aws-cdk-lib/aws-iam";
import type { IQueue } from "aws-cdk-lib/aws-sqs";
import { accept } from "./accepted-findings.ts";
import type { DataStack } from "./data-stack.ts";
import type { Handler } from "./handler.ts";

/**
 * What a function may do beyond running. Each right is the least that its name says; which function has which is in
 * `functions.ts`, and a test compares both with a table.
 *
 * Statements on the function's role alone, not CDK's grants: those also write the role into the key's policy, and the
 * key lives in the stack that this one depends on.
 */
export type Right =
  | "database"
  | "publish"
  | "follow"
  | "take-stream-places"
  | "orchestrate"
  | "tell-relay"
  | "quiet"
  | "find-executions"
  | "model-key"
  | "own-schema"
  | "fetch-pages";

export interface RightsContext {
  readonly data: DataStack;
  readonly stateMachineArn: string;
  readonly executionsArn: string;
  readonly relayQueue: IQueue;
  /** Absent where the deployment fetches no pages itself. */
  readonly fetchPage?: Handler | undefined;
}

export function grant(handler: Handler, right: Right, context: RightsContext): void {
  const { data, executionsArn, stateMachineArn } = context;
  const statement = (actions: string[], resource: string) =>
    handler.role.addToPolicy(new PolicyStatement({ actions, resources: [resource] }));
  switch (right) {
    case "database":
      data.database.grantConnect(handler.role);
      return;
    case "publish":
      statement(["dynamodb:PutItem"], data.live.table.tableArn);
      useKey(handler, "dynamodb", ["kms:Decrypt", "kms:GenerateDataKey"], data);
      return;
    case "follow":
      statement(["dynamodb:Query"], data.live.table.tableArn);
      useKey(handler, "dynamodb", ["kms:Decrypt", "kms:GenerateDataKey"], data);
      return;
    case "take-stream-places":
      statement(["dynamodb:Query", "dynamodb:PutItem", "dynamodb:DeleteItem"], data.live.table.tableArn);
      useKey(handler, "dynamodb", ["kms:Decrypt", "kms:GenerateDataKey"], data);
      return;
    case "orchestrate":
      statement(["states:StartExecution", "states:SendTaskSuccess"], stateMachineArn);
      return;
    case "tell-relay":
      statement(["sqs:SendMessage"], context.relayQueue.queueArn);
      return;
    case "quiet":
      statement(["dynamodb:GetItem", "dynamodb:PutItem"], data.live.table.tableArn);
      useKey(handler, "dynamodb", ["kms:Decrypt", "kms:GenerateDataKey"], data);
      return;
    case "find-executions":
      statement(["states:DescribeExecution"], executionsArn);
      accept(
        handler.role,
        `AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>${executionsArn.slice(executionsArn.lastIndexOf(":execution:"))}]`,
        "The executions of one state machine: their names are the turns'.",
      );
      return;
    case "model-key":
      statement(["secretsmanager:GetSecretValue"], data.modelSecret.secretArn);
      useKey(handler, "secretsmanager", ["kms:Decrypt"], data);
      return;
    case "own-schema":
      statement(["secretsmanager:GetSecretValue"], data.database.ownerSecret.secretArn);
      useKey(handler, "secretsmanager", ["kms:Decrypt"], data);
      data.database.grantOwnerConnect(handler.role);
      return;
    case "fetch-pages":
      if (context.fetchPage !== undefined) {
        statement(["lambda:InvokeFunction"], context.fetchPage.function.functionArn);
      }
      return;
  }
}

/** The key opens nothing by itself: only through the service that keeps the data. */
function useKey(handler: Handler, service: string, actions: string[], data: DataStack): void {
  const { region, urlSuffix } = Stack.of(handler);
  handler.role.addToPolicy(
    new PolicyStatement({
      actions,
      resources: [data.key.keyArn],
      conditions: { StringEquals: { "kms:ViaService": `${service}.${region}.${urlSuffix}` } },
    }),
  );
}
