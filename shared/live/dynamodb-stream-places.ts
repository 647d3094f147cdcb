import { DeleteItemCommand, type DynamoDBClient, PutItemCommand, QueryCommand } from "@aws-sdk/client-dynamodb";
import type { Log } from "../ports/log.ts";
import { assertPlaceLeft, type StreamCaps, type StreamPlaces } from "./stream-places.ts";

/**
 * The places of all Lambdas together, in the live table: each open stream has an item below its key and one below its
 * session (`topic`), which are counted before another is let in.
 *
 * Streams that come in the same moment may all be counted before any of them is written: the caps may be exceeded by
 * those few. An item whose stream ended without giving its place back (a crash) counts until it expires, a little after
 * the stream would have ended.
 *
 * It protects, and nothing depends on it: while DynamoDB cannot be reached streams are let in uncounted.
 */
export interface DynamoDbStreamPlacesOptions {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly caps: StreamCaps;
  readonly streamLifeSeconds: number;
  readonly log: Log;
  /** Only for tests: what time it is. */
  readonly now?: () => number;
}

export interface DynamoDbStreamPlaces extends StreamPlaces {
  /** Resolves when every place that was given back is free: a Lambda that returns earlier is frozen with it. */
  settled(): Promise<void>;
}

/** What a stream may take longer than its life: until it is attached, and for a client that is slow at its end. */
const SLACK_SECONDS = 60;

export function dynamoDbStreamPlaces(options: DynamoDbStreamPlacesOptions): DynamoDbStreamPlaces {
  const { client, table, caps, log, now = Date.now } = options;
  const running = new Set<Promise<void>>();

  /** Consistent, so that it has the streams that were let in before. Stops at the cap: one client may have left many. */
  async function count(topic: string, most: number): Promise<number> {
    let open = 0;
    let position: QueryCommand["input"]["ExclusiveStartKey"];
    do {
      const page = await client.send(
        new QueryCommand({
          TableName: table,
          Select: "COUNT",
          ConsistentRead: true,
          KeyConditionExpression: "topic = :topic",
          // DynamoDB removes what has expired when it gets to it.
          FilterExpression: "#expires > :now",
          ExpressionAttributeNames: { "#expires": "expires" },
          ExpressionAttributeValues: { ":topic": { S: topic }, ":now": { N: String(Math.floor(now() / 1000)) } },
          ExclusiveStartKey: position,
        }),
      );
      open += page.Count ?? 0;
      position = page.LastEvaluatedKey;
    } while (position !== undefined && open < most);
    return open;
  }

  /** Does it for both items; null when one of them failed. */
  async function both<Result>(topics: readonly string[], does: (topic: string) => Promise<Result>) {
    try {
      return await Promise.all(topics.map(does));
    } catch (error) {
      log.warn("The places of streams cannot be counted; streams are let in without.", {
        error: error instanceof Error ? error.name : "unknown",
      });
      return null;
    }
  }

  return {
    async take({ keyId, sessionId }) {
      const [ofKey, ofSession] = [`streams of ${keyId}`, `streams of ${sessionId}`];
      const most = { [ofKey]: caps.perKey, [ofSession]: caps.perSession };
      const topics = [ofKey, ofSession];
      const open = await both(topics, (topic) => count(topic, most[topic] ?? 0));
      assertPlaceLeft({ ofKey: open?.[0] ?? 0, ofSession: open?.[1] ?? 0 }, caps);
      const at = { S: crypto.randomUUID() };
      const expires = { N: String(Math.ceil(now() / 1000) + options.streamLifeSeconds + SLACK_SECONDS) };
      await both(topics, (topic) =>
        client.send(new PutItemCommand({ TableName: table, Item: { topic: { S: topic }, at, expires } })),
      );
      let release: Promise<void> | undefined;
      return () => {
        if (release === undefined) {
          const done = both(topics, (topic) =>
            client.send(new DeleteItemCommand({ TableName: table, Key: { topic: { S: topic }, at } })),
          ).then(() => void running.delete(done));
          running.add(done);
          release = done;
        }
        return release;
      };
    },
    async settled() {
      await Promise.all(running);
    },
  };
}
