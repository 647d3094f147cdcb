import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SFNClient } from "@aws-sdk/client-sfn";
import { type AwsDatabase, awsDatabase } from "../shared/db/aws-database.ts";
import { type DynamoDbLiveChannel, dynamoDbLiveChannel } from "../shared/live/dynamodb-live-channel.ts";
import type { CapabilityProfile } from "../shared/model/capability-profile.ts";
import type { Model } from "../shared/model/model.ts";
import { stepFunctionsOrchestrator } from "../shared/orchestration/step-functions.ts";
import { LEASE_SECONDS, type Product } from "../shared/product.ts";
import { noTools } from "../shared/turns/tool-executor.ts";
import { ProductEnvironment, readEnvironment } from "./environment.ts";
import { log } from "./log.ts";

interface LambdaProduct extends Product {
  readonly database: AwsDatabase;
  readonly live: DynamoDbLiveChannel;
}

/**
 * The model as the functions know it that may not call it: session creation asks for the provider's name and profile.
 * Only `call-model` and `gate-tools` have the key, and bring a model of their own.
 */
function modelElsewhere(profile: CapabilityProfile | undefined): Model {
  return {
    provider: "messages",
    ...(profile !== undefined && { profile }),
    stream: () =>
      Promise.reject(new Error("This function may not call the model; only call-model and gate-tools may.")),
  };
}

let composed: LambdaProduct | undefined;

/** The product of this environment: composed by the first invocation that needs it and kept while it is warm. */
export function product(): LambdaProduct {
  composed ??= compose();
  return composed;
}

/** What was published without waiting has been sent. */
export async function settleLive(): Promise<void> {
  await composed?.live.settled();
}

function compose(): LambdaProduct {
  const environment = readEnvironment(ProductEnvironment);
  return {
    database: awsDatabase({
      host: environment.MANGO_DATABASE_HOST,
      port: environment.MANGO_DATABASE_PORT,
      database: environment.MANGO_DATABASE_NAME,
      user: environment.MANGO_DATABASE_USER,
      region: environment.AWS_REGION,
      tls: environment.MANGO_DATABASE_TLS === "on",
      log,
    }),
    model: modelElsewhere(environment.MANGO_MODEL_PROFILE),
    live: dynamoDbLiveChannel({
      // A wake-up that takes longer than this helps nobody.
      client: new DynamoDBClient({ maxAttempts: 2, requestHandler: { connectionTimeout: 500, requestTimeout: 1000 } }),
      table: environment.MANGO_LIVE_TABLE,
      log,
    }),
    orchestrator: stepFunctionsOrchestrator({
      client: new SFNClient({}),
      stateMachineArn: environment.MANGO_STATE_MACHINE_ARN,
    }),
    tools: noTools,
    log,
    // Not the log stream's name: after a timeout Lambda starts the next process in the same stream, and that process
    // must not take the lease of the one before for its own.
    owner: `lambda:${randomUUID()}`,
    leaseSeconds: LEASE_SECONDS,
  };
}
