import { ScanCommand } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../test/eventually.ts";
import { dynamoDbAt, type LiveTables, liveTables } from "../../test/live-table.ts";
import type { Log } from "../ports/log.ts";
import { type DynamoDbLiveChannel, dynamoDbLiveChannel } from "./dynamodb-live-channel.ts";
import { liveChannelContract } from "./live-channel.testsuite.ts";
import type { LiveMessage } from "./live-channel.ts";

let tables: LiveTables;
beforeAll(async () => {
  tables = await liveTables();
});
afterAll(() => tables.close());

function recordingLog(): Log & { readonly warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, debug() {}, info() {}, error() {}, warn: (message) => void warnings.push(message) };
}

const SILENT = recordingLog();

/** A channel of a process whose clock stands still. */
function channelAt(table: string, clock: { now: number }): DynamoDbLiveChannel {
  return dynamoDbLiveChannel({ client: tables.client, table, log: SILENT, now: () => clock.now });
}

liveChannelContract("DynamoDB", async () =>
  dynamoDbLiveChannel({ client: tables.client, table: await tables.empty(), log: SILENT }),
);

describe("the DynamoDB live channel", () => {
  test("gives a message whose writer's clock is behind, once, although a later one was seen", async () => {
    const table = await tables.empty();
    const [ahead, behind] = [
      channelAt(table, { now: 1_700_000_001_500 }),
      channelAt(table, { now: 1_700_000_000_000 }),
    ];
    const heard: LiveMessage[] = [];
    const subscription = channelAt(table, { now: 1_700_000_000_000 }).subscribe("sesn_1", (it) => heard.push(it));
    subscription.pollEvery(10);

    await ahead.publish("sesn_1", { type: "wake" });
    await eventually(() => expect(heard).toHaveLength(1));
    await behind.publish("sesn_1", { type: "wake" });
    await eventually(() => expect(heard).toHaveLength(2));
    await new Promise((resolve) => setTimeout(resolve, 100));

    expect(heard).toHaveLength(2);
    subscription.close();
  });

  test("writes items that DynamoDB removes ten minutes later", async () => {
    const table = await tables.empty();

    await channelAt(table, { now: 1_700_000_000_000 }).publish("sesn_1", { type: "wake" });

    const { Items } = await tables.client.send(new ScanCommand({ TableName: table }));
    expect(Items).toEqual([
      {
        topic: { S: "sesn_1" },
        at: { S: expect.stringMatching(/^01700000000000-00000001-[0-9a-f]{8}$/) },
        message: { S: '{"type":"wake"}' },
        expires: { N: "1700000600" },
      },
    ]);
  });

  test("reads more than one page", async () => {
    const table = await tables.empty();
    const clock = { now: 1_700_000_000_000 };
    const channel = channelAt(table, clock);
    const heard: number[] = [];
    const subscription = channel.subscribe("sesn_1", (it) => void (it.type === "preview" && heard.push(it.piece)));
    subscription.pollEvery(60_000);
    // Eight items of 300 KB: a page of DynamoDB ends at 1 MB.
    const text = "x".repeat(300_000);
    for (const piece of [0, 1, 2, 3, 4, 5, 6, 7]) {
      const delta = { type: "content_delta", index: 0, content: { type: "text", text } } as const;
      const event = { type: "event_delta", event_id: "sevt_1", delta } as const;
      await channel.publish("sesn_1", { type: "preview", threadId: "sthr_1", afterSeq: 0, piece, event });
    }

    subscription.pollEvery(10);

    await eventually(() => expect(heard).toEqual([0, 1, 2, 3, 4, 5, 6, 7]));
    subscription.close();
  });

  test("is settled when what was published without waiting has been written", async () => {
    const table = await tables.empty();
    const channel = channelAt(table, { now: 1_700_000_000_000 });
    for (const topic of ["sesn_1", "sesn_2", "sesn_1"]) {
      void channel.publish(topic, { type: "wake" });
    }

    await channel.settled();

    const { Count } = await tables.client.send(new ScanCommand({ TableName: table }));
    expect(Count).toBe(3);
  });

  test("logs what it cannot write or read, and goes on", async () => {
    const log = recordingLog();
    const unreachable = dynamoDbAt("http://127.0.0.1:1");
    const channel = dynamoDbLiveChannel({ client: unreachable, table: "live", log });
    const subscription = channel.subscribe("sesn_1", () => {});
    subscription.pollEvery(10);

    await channel.publish("sesn_1", { type: "wake" });

    const [notRead, notWritten] = ["could not be read", "was not published"].map((it) => expect.stringContaining(it));
    await eventually(() => expect(log.warnings).toEqual(expect.arrayContaining([notRead, notWritten])));
    // It looks again.
    const before = log.warnings.length;
    await eventually(() => expect(log.warnings.length).toBeGreaterThan(before + 1));
    subscription.close();
    unreachable.destroy();
  });
});
