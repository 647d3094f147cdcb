import { Duration } from "aws-cdk-lib";
import type { RestApi } from "aws-cdk-lib/aws-apigateway";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import { Topic } from "aws-cdk-lib/aws-sns";
import { EmailSubscription } from "aws-cdk-lib/aws-sns-subscriptions";
import type { StateMachine } from "aws-cdk-lib/aws-stepfunctions";
import { Construct } from "constructs";
import { accept } from "./accepted-findings.ts";
import type { DataStack } from "./data-stack.ts";
import type { Functions } from "./functions.ts";

export interface OperationsProps {
  readonly data: DataStack;
  readonly functions: Functions;
  readonly api: RestApi;
  readonly stateMachine: StateMachine;
  readonly alarmEmail: string | undefined;
}

/** Who is woken: `high` at once, `medium` on the next working day. */
type Severity = "high" | "medium";

interface AlarmPlan {
  readonly id: string;
  readonly severity: Severity;
  /** What has happened, in a sentence. */
  readonly about: string;
  readonly metric: cloudwatch.IMetric;
  readonly threshold: number;
  /** How many of the last five minutes; one by default. */
  readonly minutes?: number;
}

const MINUTE = Duration.minutes(1);

/** Alarms, each with its section of the runbook, and one dashboard. */
export class Operations extends Construct {
  constructor(scope: Construct, id: string, props: OperationsProps) {
    super(scope, id);
    const topic = new Topic(this, "Alarms", { displayName: "Mango alarms", enforceSSL: true });
    accept(topic, "AwsSolutions-SNS2", "An alarm's text holds no content, and CloudWatch could not use AWS's own key.");
    if (props.alarmEmail !== undefined) {
      topic.addSubscription(new EmailSubscription(props.alarmEmail));
    }
    const action = new SnsAction(topic);
    for (const plan of alarms(props)) {
      const alarm = new cloudwatch.Alarm(this, plan.id, {
        alarmDescription: `[${plan.severity}] ${plan.about} See docs/runbook.md, section ${plan.id}.`,
        metric: plan.metric,
        threshold: plan.threshold,
        comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluationPeriods: 5,
        datapointsToAlarm: plan.minutes ?? 1,
        treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      });
      alarm.addAlarmAction(action);
    }
    new cloudwatch.Dashboard(this, "Dashboard", { widgets: widgets(props) });
  }
}

function alarms({ api, data, functions, stateMachine }: OperationsProps): AlarmPlan[] {
  const { relay, stream } = functions;
  const { cluster, proxy } = data.database;
  return [
    {
      id: "TurnsFailed",
      severity: "high",
      about: "Executions of turns failed or ran into their limits; the reconciler has to take them over.",
      metric: new cloudwatch.MathExpression({
        expression: "failed + timedOut",
        usingMetrics: {
          failed: stateMachine.metricFailed({ period: MINUTE }),
          timedOut: stateMachine.metricTimedOut({ period: MINUTE }),
        },
        period: MINUTE,
      }),
      threshold: 1,
    },
    {
      id: "TurnsThrottled",
      severity: "medium",
      about: "Step Functions throttles: turns start late.",
      metric: stateMachine.metricThrottled({ period: MINUTE }),
      threshold: 1,
      minutes: 3,
    },
    {
      id: "ServerErrors",
      severity: "high",
      about: "Clients get 5xx answers.",
      metric: api.metricServerError({ period: MINUTE, statistic: "Sum" }),
      threshold: 5,
    },
    {
      id: "RelayFails",
      severity: "high",
      about: "The scheduled relay fails: turns that a crash left behind stay behind.",
      metric: relay.function.metricErrors({ period: MINUTE }),
      threshold: 1,
      minutes: 3,
    },
    {
      id: "StreamsFull",
      severity: "medium",
      about: "All environments that are set aside for streams are in use; new streams are refused.",
      metric: stream.function.metricThrottles({ period: MINUTE }),
      threshold: 1,
      minutes: 2,
    },
    {
      id: "DatabaseFull",
      severity: "high",
      about: "The database is at its highest capacity.",
      metric: cluster.metricACUUtilization({ period: MINUTE }),
      threshold: 90,
      minutes: 5,
    },
    {
      id: "ConnectionsPinned",
      severity: "medium",
      about: "Sessions are pinned to connections of the proxy: some statement leaves state behind.",
      metric: new cloudwatch.Metric({
        namespace: "AWS/RDS",
        metricName: "DatabaseConnectionsCurrentlySessionPinned",
        dimensionsMap: { ProxyName: proxy.dbProxyName },
        statistic: "Maximum",
        period: MINUTE,
      }),
      threshold: 1,
      minutes: 5,
    },
  ];
}

function widgets({ api, data, functions, stateMachine }: OperationsProps): cloudwatch.IWidget[][] {
  const graph = (title: string, left: cloudwatch.IMetric[]) => new cloudwatch.GraphWidget({ title, left, width: 8 });
  const { cluster } = data.database;
  const states = Object.values(functions.states);
  return [
    [
      graph("Turns", [stateMachine.metricStarted(), stateMachine.metricSucceeded(), stateMachine.metricFailed()]),
      graph("Requests", [api.metricCount(), api.metricClientError(), api.metricServerError()]),
      graph("Latency of answers", [api.metricLatency({ statistic: "p50" }), api.metricLatency({ statistic: "p99" })]),
    ],
    [
      graph("Environments in use", [
        ...[functions.stream, functions.api, functions.work].map((handler) =>
          handler.function.metric("ConcurrentExecutions", { statistic: "Maximum" }),
        ),
      ]),
      graph(
        "Errors of states",
        states.map((handler) => handler.function.metricErrors()),
      ),
      graph("Database", [cluster.metricACUUtilization(), cluster.metricDatabaseConnections()]),
    ],
  ];
}
