import { type AttributeValue, type DynamoDBClient, PutItemCommand, QueryCommand } from "@aws-sdk/client-dynamodb";
import type { Log } from "../ports/log.ts";
import type { LiveChannel, LiveMessage } from "./live-channel.ts";

/**
 * The live channel between Lambdas: a DynamoDB table with one item a message (`topic`, `at`, `message`) that expires.
 *
 * Writers: the sort key is the writer's clock, a counter and a random tail, taken when `publish` is called; the puts of
 * one topic go one after the other, so that nobody sees a writer's second message before its first.
 *
 * Readers: clocks of two writers differ, and reads are eventually consistent (half the price), so a message may turn up
 * behind one that was seen already. A reader therefore asks again for the last `WINDOW_MS` each time and leaves out what
 * it knows. What comes later than that is lost, which the channel allows: the ledger has it.
 *
 * `topic` and `at` are the keys of the table, `expires` is its time-to-live attribute.
 */

/** Late enough for clocks that NTP keeps, and for replicas; early enough to read little. */
const WINDOW_MS = 2000;
/** Until a reader says otherwise: what it asks for while a session runs. */
const POLL_MS = 200;
/** DynamoDB removes expired items when it gets to it; nobody reads one older than the window. */
const KEEP_SECONDS = 600;

export interface DynamoDbLiveChannelOptions {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly log: Log;
  /** Only for tests: what time it is. */
  readonly now?: () => number;
}

export interface DynamoDbLiveChannel extends LiveChannel {
  /** Resolves when what was published has been sent: a Lambda that returns earlier is frozen with it. */
  settled(): Promise<void>;
}

export function dynamoDbLiveChannel(options: DynamoDbLiveChannelOptions): DynamoDbLiveChannel {
  const { client, table, log, now = Date.now } = options;
  /** The last put of each topic that still runs. */
  const running = new Map<string, Promise<void>>();
  let published = 0;

  async function put(topic: string, at: string, message: LiveMessage): Promise<void> {
    try {
      await client.send(
        new PutItemCommand({
          TableName: table,
          Item: {
            topic: { S: topic },
            at: { S: at },
            message: { S: JSON.stringify(message) },
            expires: { N: String(Math.ceil(now() / 1000) + KEEP_SECONDS) },
          },
        }),
      );
    } catch (error) {
      log.warn("A live message was not published; streams find it in the ledger.", { topic, error: nameOf(error) });
    }
  }

  return {
    publish(topic, message) {
      published += 1;
      const tail = `${String(published).padStart(8, "0")}-${crypto.randomUUID().slice(0, 8)}`;
      const at = `${timeKey(now())}-${tail}`;
      const done = (running.get(topic) ?? Promise.resolve()).then(() => put(topic, at, message));
      running.set(topic, done);
      return done.finally(() => {
        if (running.get(topic) === done) {
          running.delete(topic);
        }
      });
    },
    subscribe(topic, listener) {
      return new Poll({ client, table, log, now }, topic, listener);
    },
    async settled() {
      await Promise.all(running.values());
    },
  };
}

class Poll {
  readonly #source: Required<DynamoDbLiveChannelOptions>;
  readonly #topic: string;
  readonly #listener: (message: LiveMessage) => void;
  readonly #start: string;
  /** Whether what was published before the subscription is in `#known`. */
  #started = false;
  /** Keys of the window that were delivered, or lay there before the subscription. */
  readonly #known = new Set<string>();
  #newest: number;
  #intervalMs = POLL_MS;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  #closed = false;

  constructor(source: Required<DynamoDbLiveChannelOptions>, topic: string, listener: (message: LiveMessage) => void) {
    this.#source = source;
    this.#topic = topic;
    this.#listener = listener;
    this.#newest = source.now();
    this.#start = timeKey(this.#newest);
    void this.#look();
  }

  pollEvery(intervalMs: number): void {
    this.#intervalMs = intervalMs;
    if (!this.#looking) {
      this.#schedule();
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (!this.#closed) {
      this.#timer = setTimeout(() => void this.#look(), this.#intervalMs);
    }
  }

  async #look(): Promise<void> {
    this.#looking = true;
    try {
      for await (const item of this.#items(timeKey(this.#newest - WINDOW_MS))) {
        this.#take(item);
      }
      this.#started = true;
      const forgotten = timeKey(this.#newest - WINDOW_MS);
      for (const key of this.#known) {
        if (key < forgotten) {
          this.#known.delete(key);
        }
      }
    } catch (error) {
      this.#source.log.warn("The live channel could not be read; the next look decides.", {
        topic: this.#topic,
        error: nameOf(error),
      });
    } finally {
      this.#looking = false;
      this.#schedule();
    }
  }

  #take(item: Record<string, AttributeValue>): void {
    const key = item["at"]?.S ?? "";
    if (this.#closed || this.#known.has(key)) {
      return;
    }
    this.#known.add(key);
    this.#newest = Math.max(this.#newest, Number(key.slice(0, TIME_DIGITS)));
    if (this.#started || key >= this.#start) {
      this.#listener(JSON.parse(item["message"]?.S ?? "") as LiveMessage);
    }
  }

  async *#items(from: string): AsyncGenerator<Record<string, AttributeValue>> {
    let position: Record<string, AttributeValue> | undefined;
    do {
      const page = await this.#source.client.send(
        new QueryCommand({
          TableName: this.#source.table,
          KeyConditionExpression: "topic = :topic and #at > :from",
          ExpressionAttributeNames: { "#at": "at" },
          ExpressionAttributeValues: { ":topic": { S: this.#topic }, ":from": { S: from } },
          ...(position !== undefined && { ExclusiveStartKey: position }),
        }),
      );
      yield* page.Items ?? [];
      position = page.LastEvaluatedKey;
    } while (position !== undefined && !this.#closed);
  }
}

/** Milliseconds with as many digits for a thousand years, so that text sorts as numbers do. */
const TIME_DIGITS = 14;

function timeKey(milliseconds: number): string {
  return String(milliseconds).padStart(TIME_DIGITS, "0");
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : "unknown";
}
