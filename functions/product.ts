import { randomUUID } from "node:crypto";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { SFNClient } from "@aws-sdk/client-sfn";
import { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { type AwsDatabase, awsDatabase } from "../shared/db/aws-database.ts";
import { type DynamoDbLiveChannel, dynamoDbLiveChannel } from "../shared/live/dynamodb-live-channel.ts";
import { type DynamoDbStreamPlaces, dynamoDbStreamPlaces } from "../shared/live/dynamodb-stream-places.ts";
import { STREAMS_PER_SESSION } from "../shared/live/stream-places.ts";
import type { CapabilityProfile } from "../shared/model/capability-profile.ts";
import type { Model } from "../shared/model/model.ts";
import { stepFunctionsOrchestrator } from "../shared/orchestration/step-functions.ts";
import { LEASE_SECONDS, type Product } from "../shared/product.ts";
import { noTools, type ToolExecutor } from "../shared/turns/tool-executor.ts";
import { ApiEnvironment, ProductEnvironment, readEnvironment } from "./environment.ts";
import { type FirstNet, firstNet } from "./first-net.ts";
import { log } from "./log.ts";
import { countEnd, countingStarts, traceHeader, traceId } from "./observation.ts";
import { type Quiet, quietMarker } from "./quiet.ts";

interface LambdaProduct extends Product {
  readonly database: AwsDatabase;
  readonly live: DynamoDbLiveChannel;
  readonly streamPlaces: DynamoDbStreamPlaces;
  readonly firstNet: FirstNet;
  /** Null where the database never pauses. */
  readonly quiet: Quiet | null;
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

/**
 * The server's own tools as the functions know them that may not run them: session creation asks which web tools are
 * managed. `run-tool` brings an executor of its own.
 */
const toolsElsewhere: ToolExecutor = {
  manages: ["web_fetch"],
  run: () => Promise.reject(new Error("This function may not run tools; only run-tool may.")),
};

/** How long a connection may take: longer than the proxy's own wait for one. */
const CONNECT_MS = 10_000;
/** A paused database takes fifteen seconds; a client is told within five to come again. */
const RESUMING_MS = 3500;

let composed: LambdaProduct | undefined;

/** The product of this environment: composed by the first invocation that needs it and kept while it is warm. */
export function product(): LambdaProduct {
  composed ??= compose();
  return composed;
}

/**
 * The end of an invocation: what it began without waiting has been sent, its connection is not trusted after the pause,
 * and none keeps a database awake that may sleep.
 */
export async function settle(): Promise<void> {
  if (composed === undefined) {
    return;
  }
  await Promise.all([composed.live.settled(), composed.streamPlaces.settled(), composed.firstNet.settle()]);
  composed.database.rest();
  if (composed.quiet !== null) {
    await composed.database.disconnect();
  }
}

function compose(): LambdaProduct {
  const environment = readEnvironment(ProductEnvironment);
  const streams = readEnvironment(ApiEnvironment);
  const scalesToZero = environment.MANGO_SCALE_TO_ZERO === "on";
  // A wake-up that takes longer than this helps nobody.
  const dynamoDb = new DynamoDBClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 500, requestTimeout: 1000, throwOnRequestTimeout: true },
  });
  const queue = new SQSClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 500, requestTimeout: 2000, throwOnRequestTimeout: true },
  });
  const message = new SendMessageCommand({ QueueUrl: environment.MANGO_RELAY_QUEUE_URL, MessageBody: "relay" });
  const stepFunctions = stepFunctionsOrchestrator({
    client: new SFNClient({}),
    stateMachineArn: environment.MANGO_STATE_MACHINE_ARN,
    traceHeader,
  });
  const net = firstNet(countingStarts(stepFunctions), () => queue.send(message), log);
  return {
    database: awsDatabase({
      host: environment.MANGO_DATABASE_HOST,
      port: environment.MANGO_DATABASE_PORT,
      database: environment.MANGO_DATABASE_NAME,
      user: environment.MANGO_DATABASE_USER,
      region: environment.AWS_REGION,
      tls: environment.MANGO_DATABASE_TLS === "on",
      connectMs: scalesToZero ? RESUMING_MS : CONNECT_MS,
      log,
    }),
    model: modelElsewhere(environment.MANGO_MODEL_PROFILE),
    live: dynamoDbLiveChannel({ client: dynamoDb, table: environment.MANGO_LIVE_TABLE, log }),
    streamPlaces: dynamoDbStreamPlaces({
      client: dynamoDb,
      table: environment.MANGO_LIVE_TABLE,
      caps: { perKey: streams.MANGO_STREAMS_PER_KEY, perSession: STREAMS_PER_SESSION },
      streamLifeSeconds: streams.MANGO_STREAM_LIFE_SECONDS,
      log,
    }),
    orchestrator: net.orchestrator,
    firstNet: net,
    quiet: scalesToZero ? quietMarker({ client: dynamoDb, table: environment.MANGO_LIVE_TABLE }) : null,
    tools: environment.MANGO_WEB_FETCH === "managed" ? toolsElsewhere : noTools,
    log,
    // Not the log stream's name: after a timeout Lambda starts the next process in the same stream, and that process
    // must not take the lease of the one before for its own.
    owner: `lambda:${randomUUID()}`,
    traceId,
    turnEnded: countEnd,
    leaseSeconds: LEASE_SECONDS,
  };
}
