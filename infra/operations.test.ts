import { expect, test } from "vitest";
import { ofType, synthesise } from "./testing/synthesised.ts";

const { service } = synthesise();

test("every alarm tells whom it wakes and where to read on, and reaches the topic", () => {
  const alarms = ofType(service, "AWS::CloudWatch::Alarm").map(([, { Properties }]) => Properties);
  const [topic] = ofType(service, "AWS::SNS::Topic").map(([id]) => id);

  expect(alarms).toHaveLength(7);
  for (const { AlarmDescription, AlarmActions } of alarms) {
    expect(AlarmDescription).toMatch(/^\[(high|medium)\] .+\. See docs\/runbook\.md, section \w+\.$/);
    expect(AlarmActions).toEqual([{ Ref: topic }]);
  }
});
