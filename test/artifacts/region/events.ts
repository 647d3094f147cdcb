/** EventBridge and Lambda's event source mappings: who is invoked for what, by the template's rules. */
import type { ClosedExecution } from "../../../local/stepfunctions/executions.ts";
import type { Assembly, Existing } from "./assembly.ts";
import type { LambdaService } from "./lambda-service.ts";
import type { QueueService } from "./queue.ts";

export interface EventServices {
  /** Invokes what has a schedule, once. */
  tick(): Promise<void>;
  /** Hands out what lies in the queues; `times` as often, because delivery is at least once. */
  deliver(times?: number): Promise<void>;
  executionClosed(execution: Omit<ClosedExecution, "status"> & { readonly status: string }): Promise<void>;
}

export function eventServices(
  assembly: Assembly,
  existing: Existing,
  lambda: LambdaService,
  queues: QueueService,
): EventServices {
  const rules = assembly.ofType("AWS::Events::Rule").map(({ Properties }) => ({
    schedule: Properties.ScheduleExpression as string | undefined,
    pattern: assembly.resolve(Properties.EventPattern ?? null, existing),
    targets: assembly.resolve(Properties.Targets, existing) as { Arn: string; Input?: string }[],
  }));
  const mappings = assembly.ofType("AWS::Lambda::EventSourceMapping").map(({ Properties }) => ({
    queue: assembly.ofType("AWS::SQS::Queue").find(({ id }) => id === Properties.EventSourceArn["Fn::GetAtt"][0]),
    functionName: assembly.resolve(Properties.FunctionName, existing) as string,
  }));
  return {
    async tick() {
      for (const { targets } of rules.filter(({ schedule }) => schedule !== undefined)) {
        await Promise.all(targets.map(({ Arn, Input }) => lambda.call(Arn, JSON.parse(Input ?? "{}"))));
      }
    },
    async deliver(times = 1) {
      const calls = queues.messages
        .splice(0)
        .flatMap(({ queue: url, body }) =>
          mappings
            .filter(({ queue }) => queue !== undefined && existing(queue, "") === url)
            .flatMap(({ functionName }) =>
              Array.from({ length: times }, () =>
                lambda.call(functionName, { Records: [{ messageId: "1", body, eventSource: "aws:sqs" }] }),
              ),
            ),
        );
      await Promise.all(calls);
    },
    async executionClosed({ executionArn, input, name, stateMachine, status }) {
      const stateMachineArn = executionArn.replace(":execution:", ":stateMachine:").replace(`:${name}`, "");
      const event = {
        source: "aws.states",
        "detail-type": "Step Functions Execution Status Change",
        detail: { executionArn, stateMachineArn, name, status, input: JSON.stringify(input), stateMachine },
      };
      for (const { targets } of rules.filter(({ pattern }) => pattern !== null && matches(pattern, event))) {
        await Promise.all(targets.map(({ Arn }) => lambda.call(Arn, event)));
      }
    },
  };
}

/** An event pattern: for each field the values it may have. */
function matches(pattern: unknown, event: unknown): boolean {
  return Array.isArray(pattern)
    ? pattern.includes(event)
    : Object.entries(pattern as object).every(([name, inner]) =>
        matches(inner, (event as Record<string, unknown>)[name]),
      );
}
