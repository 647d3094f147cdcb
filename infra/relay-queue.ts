import { Duration } from "aws-cdk-lib";
import * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";

/** An outbox row is its author's for ten seconds; a message that came sooner would find nothing due. */
const DELAY = Duration.seconds(11);
/** Six times the relay's own time, as Lambda asks for, so that a message is not handed out twice while it is worked on. */
const VISIBLE_AFTER = Duration.minutes(6);
const ATTEMPTS = 3;

/**
 * The relay's first net: whoever could not say something to Step Functions at once leaves a message here. It holds no
 * content. A message that fails three times is given up; the relay's schedule does the same each minute.
 */
export class RelayQueue extends Construct {
  readonly queue: sqs.Queue;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    const common = { encryption: sqs.QueueEncryption.SQS_MANAGED, enforceSSL: true } as const;
    const givenUp = new sqs.Queue(this, "GivenUp", { ...common, retentionPeriod: Duration.days(14) });
    this.queue = new sqs.Queue(this, "Queue", {
      ...common,
      deliveryDelay: DELAY,
      visibilityTimeout: VISIBLE_AFTER,
      retentionPeriod: Duration.hours(1),
      deadLetterQueue: { queue: givenUp, maxReceiveCount: ATTEMPTS },
    });
  }
}
