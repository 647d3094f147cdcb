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

test("a database without a proxy has no alarm about one", () => {
  const descriptions = ofType(synthesise({ scaleToZero: "true" }).service, "AWS::CloudWatch::Alarm").map(
    ([, { Properties }]) => Properties.AlarmDescription,
  );

  expect(descriptions).toHaveLength(alarms.length - 1);
  expect(descriptions.join()).not.toContain("ConnectionsPinned");
});
