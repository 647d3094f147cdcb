import { readFileSync } from "node:fs";
import { ArnFormat, Duration, RemovalPolicy, Stack } from "aws-cdk-lib";
import { Rule, RuleTargetInput, Schedule } from "aws-cdk-lib/aws-events";
import { LambdaFunction } from "aws-cdk-lib/aws-events-targets";
import * as iam from "aws-cdk-lib/aws-iam";
import { SqsEventSource } from "aws-cdk-lib/aws-lambda-event-sources";
import * as logs from "aws-cdk-lib/aws-logs";
import type { IQueue } from "aws-cdk-lib/aws-sqs";
import * as sfn from "aws-cdk-lib/aws-stepfunctions";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import type { Functions } from "./functions.ts";

const DEFINITION = new URL("../statemachines/turn.asl.json", import.meta.url);
/** A wait of a day ends its execution; the answer starts the next. */
const PARK = Duration.days(1);

/**
 * The state machine's name and ARN are known before it exists: its functions are told whom to start, and it is told
 * whom to invoke.
 */
export function stateMachineName(stage: string): string {
  return `mango-${stage}-turn`;
}

export function stateMachineArn(scope: Construct, stage: string): string {
  return Stack.of(scope).formatArn({
    service: "states",
    resource: "stateMachine",
    resourceName: stateMachineName(stage),
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}

/** All executions of the state machine. */
export function executionsArn(scope: Construct, stage: string): string {
  return Stack.of(scope).formatArn({
    service: "states",
    resource: "execution",
    resourceName: `${stateMachineName(stage)}:*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}

export interface OrchestrationProps {
  readonly functions: Functions;
  readonly stage: string;
  readonly relayQueue: IQueue;
}

/** The turn's state machine, from the file that the embedded edition runs too, and all that calls the relay. */
export class Orchestration extends Construct {
  readonly stateMachine: sfn.StateMachine;

  constructor(scope: Construct, id: string, props: OrchestrationProps) {
    super(scope, id);
    const { functions } = props;
    const role = new iam.Role(this, "Role", { assumedBy: new iam.ServicePrincipal("states.amazonaws.com") });
    const targets = Object.values(functions.states).map((handler) => handler.function.functionArn);
    role.addToPolicy(new iam.PolicyStatement({ actions: ["lambda:InvokeFunction"], resources: targets }));
    this.stateMachine = new sfn.StateMachine(this, "Turn", {
      stateMachineName: stateMachineName(props.stage),
      stateMachineType: sfn.StateMachineType.STANDARD,
      definitionBody: sfn.DefinitionBody.fromString(readFileSync(DEFINITION, "utf8")),
      definitionSubstitutions: {
        ...Object.fromEntries(
          Object.entries(functions.states).map(([state, handler]) => [
            `${state}Function`,
            handler.function.functionArn,
          ]),
        ),
        ParkSeconds: String(PARK.toSeconds()),
      },
      role,
      tracingEnabled: true,
      logs: {
        destination: new logs.LogGroup(this, "Log", {
          // Step Functions finds log groups with this prefix without a resource policy for each.
          logGroupName: `/aws/vendedlogs/states/${stateMachineName(props.stage)}`,
          retention: logs.RetentionDays.ONE_MONTH,
          removalPolicy: RemovalPolicy.DESTROY,
        }),
        level: sfn.LogLevel.ALL,
        includeExecutionData: false,
      },
    });
    accept(role, "AwsSolutions-IAM5[Resource::*]", "Log delivery and trace segments have no ARN to name.");

    new Rule(this, "RelaySchedule", {
      description: "Delivers what a crash or an outage left in the outbox",
      schedule: Schedule.rate(Duration.minutes(1)),
      targets: [
        new LambdaFunction(functions.relay.function, {
          event: RuleTargetInput.fromObject({ task: "upkeep" }),
          // The next minute's run does the same.
          retryAttempts: 0,
        }),
      ],
    });

    // What the state machine cannot catch: its time limit, its data limit, a failure of FailTurn itself.
    new Rule(this, "LostExecutions", {
      description: "Takes over turns whose execution ended otherwise than by success",
      eventPattern: {
        source: ["aws.states"],
        detailType: ["Step Functions Execution Status Change"],
        detail: {
          status: ["FAILED", "TIMED_OUT", "ABORTED"],
          stateMachineArn: [this.stateMachine.stateMachineArn],
        },
      },
      targets: [new LambdaFunction(functions.relay.function)],
    });
    functions.relay.function.addEventSource(
      // One message says all: more at once, or more batches side by side, would do the same work.
      new SqsEventSource(props.relayQueue, { batchSize: 10, maxConcurrency: 2 }),
    );
  }
}
