import { setTimeout } from "node:timers/promises";
import { CreateStateMachineCommand, SFNClient } from "@aws-sdk/client-sfn";
import { CreateQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { HEARTBEAT_SECONDS, type StepFunctionsEndpoint } from "./parity.ts";

const TOKEN_SECONDS = 20;

/** A state machine for the comparison with AWS, made in the emulator that the environment's AWS variables name. */
export async function emulatedStepFunctions(): Promise<StepFunctionsEndpoint> {
  const [client, queues] = [new SFNClient({}), new SQSClient({})];
  const { QueueUrl } = await queues.send(new CreateQueueCommand({ QueueName: "parity-tokens" }));
  const definition = {
    QueryLanguage: "JSONata",
    StartAt: "Park",
    States: {
      Park: {
        Type: "Task",
        Resource: "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        Arguments: { QueueUrl, MessageBody: "{% $states.context.Task.Token %}" },
        TimeoutSeconds: 100,
        HeartbeatSeconds: HEARTBEAT_SECONDS,
        End: true,
      },
    },
  };
  const { stateMachineArn = "" } = await client.send(
    new CreateStateMachineCommand({
      name: "parity",
      definition: JSON.stringify(definition),
      // Emulators ask for the name of a role, and look no further.
      roleArn: "arn:aws:iam::000000000000:role/parity",
    }),
  );
  return {
    client,
    stateMachineArn,
    async token() {
      const received = await queues.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: TOKEN_SECONDS }));
      const [message] = received.Messages ?? [];
      if (message?.Body === undefined) {
        throw new Error(`No task gave its token away within ${TOKEN_SECONDS} s.`);
      }
      await queues.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
      return message.Body;
    },
    pass: (seconds) => setTimeout(seconds * 1000),
  };
}
