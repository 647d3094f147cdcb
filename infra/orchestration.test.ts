import { describe, expect, test } from "vitest";
import { ofType, ourFunctions, synthesise } from "./testing/synthesised.ts";

const { service } = synthesise();
const relay = ourFunctions(service)["Relay"];
const rules = ofType(service, "AWS::Events::Rule").map(([, { Properties }]) => Properties);
const [machine] = ofType(service, "AWS::StepFunctions::StateMachine").map(([id]) => id);

describe("the relay is called", () => {
  test("every minute, to look after what is left", () => {
    const [schedule] = rules.filter(({ ScheduleExpression }) => ScheduleExpression !== undefined);

    expect(schedule.ScheduleExpression).toBe("rate(1 minute)");
    expect(schedule.Targets).toMatchObject([{ Arn: { "Fn::GetAtt": [relay?.id, "Arn"] }, Input: '{"task":"upkeep"}' }]);
  });

  test("when an execution of ours has ended otherwise than by success", () => {
    const [lost] = rules.filter(({ EventPattern }) => EventPattern !== undefined);

    expect(lost.EventPattern).toEqual({
      source: ["aws.states"],
      "detail-type": ["Step Functions Execution Status Change"],
      detail: { status: ["FAILED", "TIMED_OUT", "ABORTED"], stateMachineArn: [{ Ref: machine }] },
    });
    expect(lost.Targets).toMatchObject([{ Arn: { "Fn::GetAtt": [relay?.id, "Arn"] } }]);
  });

  test("by a message that arrives when an outbox row's claim has run out", () => {
    const queues = ofType(service, "AWS::SQS::Queue");
    const [source] = ofType(service, "AWS::Lambda::EventSourceMapping").map(([, { Properties }]) => Properties);
    const [queue] = queues.filter(([, { Properties }]) => Properties.RedrivePolicy !== undefined);

    expect(queue?.[1].Properties).toMatchObject({
      DelaySeconds: 11,
      VisibilityTimeout: 360,
      SqsManagedSseEnabled: true,
      RedrivePolicy: { maxReceiveCount: 3 },
    });
    expect(source).toMatchObject({
      EventSourceArn: { "Fn::GetAtt": [queue?.[0], "Arn"] },
      FunctionName: { Ref: relay?.id },
      ScalingConfig: { MaximumConcurrency: 2 },
    });
    // Fewer environments than the queue and the schedule may want at once would make Lambda throttle the messages.
    expect(relay?.Properties.ReservedConcurrentExecutions).toBeGreaterThan(2);
  });
});
