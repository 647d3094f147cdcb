import { type DynamoDBClient, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { secretDigest } from "../shared/contract/ids.ts";

/**
 * The marker of a deployment that scales to zero: until when somebody was active. Kept beside the live channel, because
 * a look at it must not wake the database.
 *
 * active → (nothing for `ACTIVE_MS`) → quiet → (a request, or a state of a turn) → active.
 *
 * Whoever does something says so before it does it. Whoever only waits (a worker's poll, a reconnecting stream, the
 * schedule) looks first, and while all is quiet leaves the database alone, so that it pauses. A poll or stream that is
 * answered without the database must have been let in by it before: its key leaves a pass, good for a day.
 */

/** Longer than the relay's rounds and a turn's longest silence between two states. */
const ACTIVE_MS = 10 * 60_000;
/** How often one environment repeats itself. */
const REPEAT_MS = 60_000;
const PASS_MS = 24 * 60 * 60_000;
/** The sort key of both kinds of item. */
const AT = "-";

export interface Quiet {
  /** Somebody is active: the database is wanted from now on. */
  note(): Promise<void>;
  isQuiet(): Promise<boolean>;
  /** The database has let this key in to this place. */
  remember(secret: string, place: string): Promise<void>;
  /** Whether the key was let in to that place within the last day. */
  knows(secret: string, place: string): Promise<boolean>;
}

export function quietMarker(options: {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly now?: () => number;
}): Quiet {
  const { client, table, now = Date.now } = options;
  /** When each item was written by this environment. */
  const written = new Map<string, number>();

  async function write(topic: string, lifeMs: number): Promise<void> {
    if (now() - (written.get(topic) ?? 0) < REPEAT_MS) {
      return;
    }
    const until = now() + lifeMs;
    await client.send(
      new PutItemCommand({
        TableName: table,
        Item: {
          topic: { S: topic },
          at: { S: AT },
          until: { N: String(until) },
          expires: { N: String(Math.ceil(until / 1000)) },
        },
      }),
    );
    written.set(topic, now());
  }

  async function holds(topic: string): Promise<boolean> {
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { topic: { S: topic }, at: { S: AT } }, ConsistentRead: true }),
    );
    return Number(Item?.["until"]?.N ?? 0) > now();
  }

  const pass = (secret: string, place: string) => `pass ${secretDigest(secret).toString("hex")} ${place}`;
  return {
    note: () => write("activity", ACTIVE_MS),
    isQuiet: async () => !(await holds("activity")),
    remember: (secret, place) => write(pass(secret, place), PASS_MS),
    knows: (secret, place) => holds(pass(secret, place)),
  };
}
