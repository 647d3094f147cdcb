import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ofType, synthesise } from "./testing/synthesised.ts";

const { service } = synthesise();
const alarms = ofType(service, "AWS::CloudWatch::Alarm").map(([, { Properties }]) => Properties);

test("every alarm tells whom it wakes, reaches the topic, and has its section of the runbook", () => {
  const [topic] = ofType(service, "AWS::SNS::Topic").map(([id]) => id);
  const runbook = readFileSync(new URL("../docs/runbook.md", import.meta.url), "utf8");
  const sections = [...runbook.matchAll(/^## (\w+)$/gm)].map(([, section]) => section);

  const named = alarms.map(({ AlarmDescription, AlarmActions }) => {
    expect(AlarmActions).toEqual([{ Ref: topic }]);
    const [, section] =
      /^\[(?:high|medium)\] .+\. See docs\/runbook\.md, section (\w+)\.$/.exec(AlarmDescription) ?? [];
    return section;
  });

  expect(named.sort()).toEqual(sections.sort());
});

test("CloudWatch may publish to the topic, and nobody without TLS", () => {
  const [policy] = ofType(service, "AWS::SNS::TopicPolicy").map(([, { Properties }]) => Properties);
  const [topic] = ofType(service, "AWS::SNS::Topic").map(([id]) => id);

  expect(policy.PolicyDocument.Statement).toEqual([
    expect.objectContaining({
      Effect: "Deny",
      Action: "sns:Publish",
      Condition: { Bool: { "aws:SecureTransport": "false" } },
    }),
    {
      Sid: "1",
      Effect: "Allow",
      Action: "sns:Publish",
      Principal: { Service: "cloudwatch.amazonaws.com" },
      Resource: { Ref: topic },
      Condition: { StringEquals: { "aws:SourceAccount": { Ref: "AWS::AccountId" } } },
    },
  ]);
});

test("silence is an alarm where all figures come from, and a minute without one is none elsewhere", () => {
  const about = (section: string) =>
    alarms.find(({ AlarmDescription }) => AlarmDescription.includes(`section ${section}.`));
  const expressions = alarms.flatMap(({ Metrics }) =>
    (Metrics ?? []).flatMap(({ Expression }: { Expression?: string }) => Expression ?? []),
  );

  expect(about("RelaySilent")).toMatchObject({
    ComparisonOperator: "LessThanThreshold",
    MetricName: "Invocations",
    Threshold: 1,
    TreatMissingData: "breaching",
  });
  expect(about("ServerErrors").TreatMissingData).toBe("notBreaching");
  expect(expressions).toEqual([
    "FILL(failed, 0) + FILL(timedOut, 0)",
    "FILL(starts, 0) + FILL(transitions, 0)",
    "FILL(api, 0) + FILL(work, 0)",
  ]);
});

test("our own figures are looked for where the functions put them", () => {
  const ours = alarms.filter(({ Namespace }) => Namespace === "Mango");

  expect(
    Object.fromEntries(ours.map(({ MetricName, Statistic, Threshold }) => [MetricName, [Statistic, Threshold]])),
  ).toEqual({
    TurnsFailed: ["Sum", 5],
    ProviderErrors: ["Sum", 20],
    OldestOutboxRow: ["Maximum", 120],
    OldestQueuedWork: ["Maximum", 600],
  });
  for (const { Dimensions } of ours) {
    expect(Dimensions).toEqual([{ Name: "service", Value: "mango-dev" }]);
  }
});

test("a database that may pause has no alarm about a proxy, and wakes nobody when it resumes", () => {
  const pausing = ofType(synthesise({ scaleToZero: "true" }).service, "AWS::CloudWatch::Alarm").map(
    ([, { Properties }]) => Properties,
  );
  const descriptions = pausing.map(({ AlarmDescription }) => AlarmDescription);
  const serverErrors = (of: typeof alarms) =>
    of.find(({ AlarmDescription }) => AlarmDescription.includes("section ServerErrors."));

  expect([serverErrors(alarms).DatapointsToAlarm, serverErrors(pausing).DatapointsToAlarm]).toEqual([1, 3]);

  expect(descriptions).toHaveLength(alarms.length - 1);
  expect(descriptions.join()).not.toContain("ConnectionsPinned");
});
