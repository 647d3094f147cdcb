import { Duration, Stack } from "aws-cdk-lib";
import type { RestApi } from "aws-cdk-lib/aws-apigateway";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import { Effect, PolicyStatement, ServicePrincipal } from "aws-cdk-lib/aws-iam";
import { Topic } from "aws-cdk-lib/aws-sns";
import { EmailSubscription } from "aws-cdk-lib/aws-sns-subscriptions";
import type { StateMachine } from "aws-cdk-lib/aws-stepfunctions";
import { Construct } from "constructs";
import type { Figure } from "../functions/observation.ts";
import { accept } from "./accepted-findings.ts";
import type { DataStack } from "./data-stack.ts";
import type { Functions } from "./functions.ts";
import { METRICS_NAMESPACE } from "./handler.ts";
import type { Settings } from "./settings.ts";

export interface OperationsProps {
  readonly data: DataStack;
  readonly functions: Functions;
  readonly api: RestApi;
  readonly stateMachine: StateMachine;
  readonly settings: Settings;
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
  /** The alarm goes off below the threshold, and when there are no figures at all. */
  readonly below?: true;
}

/** A figure of our own: see `functions/observation.ts`. */
function figure(name: Figure | "ProviderErrors" | "ProviderLatency", stage: string, statistic: string) {
  return new cloudwatch.Metric({
    namespace: METRICS_NAMESPACE,
    metricName: name,
    dimensionsMap: { service: `mango-${stage}` },
    statistic,
    period: MINUTE,
  });
}

const MINUTE = Duration.minutes(1);

/** Their sum; a metric that has no figure for a minute counts as none then, where plain addition would have no sum. */
function sumOf(metrics: Readonly<Record<string, cloudwatch.IMetric>>): cloudwatch.MathExpression {
  const expression = Object.keys(metrics)
    .map((name) => `FILL(${name}, 0)`)
    .join(" + ");
  return new cloudwatch.MathExpression({ expression, usingMetrics: { ...metrics }, period: MINUTE });
}

/** Alarms, each with its section of the runbook, and one dashboard. */
export class Operations extends Construct {
  constructor(scope: Construct, id: string, props: OperationsProps) {
    super(scope, id);
    const topic = new Topic(this, "Alarms", { displayName: "Mango alarms", enforceSSL: true });
    accept(topic, "AwsSolutions-SNS2", "An alarm's text holds no content, and CloudWatch could not use AWS's own key.");
    // enforceSSL brings a policy of its own, which takes the place of the one that lets CloudWatch in.
    topic.addToResourcePolicy(
      new PolicyStatement({
        effect: Effect.ALLOW,
        actions: ["sns:Publish"],
        principals: [new ServicePrincipal("cloudwatch.amazonaws.com")],
        resources: [topic.topicArn],
        conditions: { StringEquals: { "aws:SourceAccount": Stack.of(this).account } },
      }),
    );
    if (props.settings.alarmEmail !== undefined) {
      topic.addSubscription(new EmailSubscription(props.settings.alarmEmail));
    }
    const action = new SnsAction(topic);
    for (const plan of alarms(props)) {
      const alarm = new cloudwatch.Alarm(this, plan.id, {
        alarmDescription: `[${plan.severity}] ${plan.about} See docs/runbook.md, section ${plan.id}.`,
        metric: plan.metric,
        threshold: plan.threshold,
        comparisonOperator: plan.below
          ? cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
          : cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluationPeriods: 5,
        datapointsToAlarm: plan.minutes ?? 1,
        treatMissingData: plan.below
          ? cloudwatch.TreatMissingData.BREACHING
          : cloudwatch.TreatMissingData.NOT_BREACHING,
      });
      alarm.addAlarmAction(action);
    }
    new cloudwatch.Dashboard(this, "Dashboard", { widgets: widgets(props) });
  }
}

function alarms({ api, data, functions, stateMachine, settings }: OperationsProps): AlarmPlan[] {
  const { relay, stream, work } = functions;
  const { cluster, proxy } = data.database;
  const { stage } = settings;
  return [
    {
      id: "TurnsFailed",
      severity: "high",
      about: "Executions of turns failed or ran into their limits; the reconciler has to take them over.",
      metric: sumOf({
        failed: stateMachine.metricFailed({ period: MINUTE }),
        timedOut: stateMachine.metricTimedOut({ period: MINUTE }),
      }),
      threshold: 1,
    },
    {
      id: "TurnsThrottled",
      severity: "medium",
      about: "Step Functions throttles: turns start late.",
      metric: sumOf({
        starts: new cloudwatch.Metric({
          namespace: "AWS/States",
          metricName: "ThrottledEvents",
          dimensionsMap: { APIName: "StartExecution" },
          statistic: "Sum",
          period: MINUTE,
        }),
        // Of executions that run; a start that was refused is none.
        transitions: stateMachine.metricThrottled({ period: MINUTE }),
      }),
      threshold: 1,
      minutes: 3,
    },
    {
      id: "ServerErrors",
      severity: "high",
      about: "Clients get 5xx answers.",
      metric: api.metricServerError({ period: MINUTE, statistic: "Sum" }),
      threshold: 5,
      // While a database resumes, thirty seconds at most, everybody gets a 503.
      ...(settings.scaleToZero && { minutes: 3 }),
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
      id: "RelaySilent",
      severity: "high",
      about: "The scheduled relay has not run for five minutes: every figure of ours comes from it.",
      metric: relay.function.metricInvocations({ period: MINUTE }),
      threshold: 1,
      minutes: 5,
      below: true,
    },
    {
      id: "RequestsThrottled",
      severity: "high",
      about: "All environments that are set aside for the API or for workers are in use; requests are refused.",
      metric: sumOf({
        api: functions.api.function.metricThrottles({ period: MINUTE }),
        work: work.function.metricThrottles({ period: MINUTE }),
      }),
      threshold: 1,
      minutes: 2,
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
      id: "TurnsExhausted",
      severity: "medium",
      about: "Turns end with an error instead of an answer.",
      metric: figure("TurnsFailed", stage, "Sum"),
      threshold: 5,
    },
    {
      id: "ProviderFails",
      severity: "medium",
      about: "The provider refuses or breaks many requests; turns back off.",
      metric: figure("ProviderErrors", stage, "Sum"),
      threshold: 20,
      minutes: 3,
    },
    {
      id: "OutboxOld",
      severity: "high",
      about: "Something has waited for minutes to be said to Step Functions: turns do not start.",
      metric: figure("OldestOutboxRow", stage, "Maximum"),
      threshold: 120,
      minutes: 3,
    },
    {
      id: "WorkOld",
      severity: "medium",
      about: "Work has waited for ten minutes: no worker takes it.",
      metric: figure("OldestQueuedWork", stage, "Maximum"),
      threshold: 600,
      minutes: 3,
    },
    ...(proxy === undefined
      ? []
      : [
          {
            id: "ConnectionsPinned",
            severity: "medium" as const,
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
        ]),
  ];
}

function widgets({ api, data, functions, stateMachine, settings }: OperationsProps): cloudwatch.IWidget[][] {
  const graph = (title: string, left: cloudwatch.IMetric[]) => new cloudwatch.GraphWidget({ title, left, width: 8 });
  const { cluster } = data.database;
  const { stage } = settings;
  const states = Object.values(functions.states);
  const perMinute = (...names: Parameters<typeof figure>[0][]) => names.map((name) => figure(name, stage, "Sum"));
  const highest = (...names: Parameters<typeof figure>[0][]) => names.map((name) => figure(name, stage, "Maximum"));
  return [
    [
      graph("Turns", perMinute("TurnsStarted", "TurnsCompleted", "TurnsFailed", "Rounds")),
      graph("Waiting: turns, work, outbox", highest("TurnsParked", "WorkQueued", "OutboxRows")),
      graph("Oldest that waits, in seconds", highest("OldestParkedTurn", "OldestQueuedWork", "OldestOutboxRow")),
    ],
    [
      new cloudwatch.GraphWidget({
        title: "Provider: errors by kind, and time to an answer",
        left: [
          new cloudwatch.MathExpression({
            expression: `SEARCH('{${METRICS_NAMESPACE},kind,service} MetricName="ProviderErrors" service="mango-${stage}"', 'Sum', 60)`,
            usingMetrics: {},
            label: "",
            period: MINUTE,
          }),
        ],
        right: [figure("ProviderLatency", stage, "p50"), figure("ProviderLatency", stage, "p99")],
        width: 8,
      }),
      graph("Executions", [stateMachine.metricStarted(), stateMachine.metricSucceeded(), stateMachine.metricFailed()]),
      graph(
        "Errors of states",
        states.map((handler) => handler.function.metricErrors()),
      ),
    ],
    [
      graph("Requests", [api.metricCount(), api.metricClientError(), api.metricServerError()]),
      graph("Latency of answers", [api.metricLatency({ statistic: "p50" }), api.metricLatency({ statistic: "p99" })]),
      graph(
        "Open streams, and environments of the API",
        [functions.stream, functions.api, functions.work].map((handler) =>
          handler.function.metric("ConcurrentExecutions", { statistic: "Maximum" }),
        ),
      ),
    ],
    [graph("Database", [cluster.metricACUUtilization(), cluster.metricDatabaseConnections()])],
  ];
}
