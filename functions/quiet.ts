import { type AttributeValue, type DynamoDBClient, GetItemCommand, PutItemCommand } from "@aws-sdk/client-dynamodb";
import { secretDigest } from "../shared/contract/ids.ts";

/**
 * The marker of a deployment that scales to zero: until when somebody was active. Kept beside the live channel, because
 * a look at it must not wake the database.
 *
 * active → (nothing for `ACTIVE_MS`) → quiet → (a request, or a state of a turn) → active.
 *
 * Whoever does something says so before it does it. Whoever only waits (a worker's poll, a reconnecting stream, the
 * schedule) looks first, and while all is quiet leaves the database alone, so that it pauses. It may do so only where
 * the database has nothing for it, and the database itself has said that:
 *
 * - A poll has a pass, good for a day: the database has let its key in. And the last upkeep, which ran after the last
 *   activity, found no work queued in its environment.
 * - A stream has been shown, to the same key and since all is quiet, everything up to where it stands.
 */

/** Longer than the relay's rounds and a turn's longest silence between two states. */
const ACTIVE_MS = 10 * 60_000;
/** How often one environment repeats itself. */
const REPEAT_MS = 60_000;
/** An environment that is active says so a minute late at most, and an upkeep takes a minute at most. */
const SETTLED_MS = REPEAT_MS + 60_000;
const PASS_MS = 24 * 60 * 60_000;
/** An item holds 400 KB. With more environments than this nothing is told, and the database stays awake. */
const MOST_ENVIRONMENTS = 5000;
/** The sort key of all items. */
const AT = "-";

export interface Quiet {
  /** Somebody is active: the database is wanted from now on. */
  note(): Promise<void>;
  isQuiet(): Promise<boolean>;
  /** An upkeep has found work queued in these environments, and in no others. */
  tellQueued(environmentIds: readonly string[]): Promise<void>;
  /** What the last upkeep found; null when somebody may have been active after it. */
  queued(): Promise<readonly string[] | null>;
  /** The database has let this key in to this place. */
  remember(secret: string, place: string): Promise<void>;
  /** Whether the key was let in to that place within the last day. */
  knows(secret: string, place: string): Promise<boolean>;
  /** All is quiet, and whoever has this key was shown all that the stream has, up to this position. */
  rememberShown(secret: string, place: string, position: string): Promise<void>;
  /** Whether there is nothing more to show from this position on. */
  hasShown(secret: string, place: string, position: string): Promise<boolean>;
}

export function quietMarker(options: {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly now?: () => number;
}): Quiet {
  const { client, table, now = Date.now } = options;
  /** When each item was written by this environment. */
  const written = new Map<string, number>();

  async function put(topic: string, fields: Record<string, AttributeValue>): Promise<void> {
    const Item = { topic: { S: topic }, at: { S: AT }, written: { N: String(now()) }, ...fields };
    await client.send(new PutItemCommand({ TableName: table, Item }));
  }

  async function writeNowAndThen(topic: string, fields: Record<string, AttributeValue>): Promise<void> {
    if (now() - (written.get(topic) ?? 0) >= REPEAT_MS) {
      await put(topic, fields);
      written.set(topic, now());
    }
  }

  async function read(topic: string) {
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { topic: { S: topic }, at: { S: AT } }, ConsistentRead: true }),
    );
    return { until: Number(Item?.["until"]?.N ?? 0), written: Number(Item?.["written"]?.N ?? 0), item: Item };
  }

  function givePass(topic: string): Promise<void> {
    const until = now() + PASS_MS;
    return writeNowAndThen(topic, { until: { N: String(until) }, expires: { N: String(Math.ceil(until / 1000)) } });
  }

  // A digest of both: a key of the table has at most 2048 bytes, and a path has no space.
  const digest = (secret: string, place: string) => secretDigest(`${secret} ${place}`).toString("hex");
  const pass = (secret: string, place: string) => `pass ${digest(secret, place)}`;
  const shown = (secret: string, place: string, position: string) => `shown ${digest(secret, place)} ${position}`;
  return {
    // It does not expire: what was written before it would count again.
    note: () => writeNowAndThen("activity", { until: { N: String(now() + ACTIVE_MS) } }),
    isQuiet: async () => (await read("activity")).until <= now(),
    async tellQueued(environmentIds) {
      if (environmentIds.length <= MOST_ENVIRONMENTS) {
        await put("queued", { environments: { L: environmentIds.map((environmentId) => ({ S: environmentId })) } });
      }
    },
    async queued() {
      const [activity, queued] = await Promise.all([read("activity"), read("queued")]);
      if (queued.item === undefined || queued.written < activity.written + SETTLED_MS) {
        return null;
      }
      return queued.item["environments"]?.L?.map(({ S }) => String(S)) ?? [];
    },
    remember: (secret, place) => givePass(pass(secret, place)),
    knows: async (secret, place) => (await read(pass(secret, place))).until > now(),
    rememberShown: (secret, place, position) => givePass(shown(secret, place, position)),
    async hasShown(secret, place, position) {
      const [activity, it] = await Promise.all([read("activity"), read(shown(secret, place, position))]);
      return it.until > now() && it.written >= activity.until;
    },
  };
}
