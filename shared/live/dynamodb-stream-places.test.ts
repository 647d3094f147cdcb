import { ScanCommand } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { dynamoDbAt, type LiveTables, liveTables } from "../../test/live-table.ts";
import { type DynamoDbStreamPlaces, dynamoDbStreamPlaces } from "./dynamodb-stream-places.ts";
import { streamPlacesContract } from "./stream-places.testsuite.ts";

let tables: LiveTables;
beforeAll(async () => {
  tables = await liveTables();
});
afterAll(() => tables.close());

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

streamPlacesContract("DynamoDB", async (caps) =>
  dynamoDbStreamPlaces({
    client: tables.client,
    table: await tables.empty(),
    caps,
    streamLifeSeconds: 300,
    log: SILENT,
  }),
);

describe("the places in DynamoDB", () => {
  const caps = { perKey: 2, perSession: 10 };
  const clock = { now: 0 };
  let table: string;
  beforeEach(async () => {
    table = await tables.empty();
    clock.now = 1_700_000_000_000;
  });
  const environment = () =>
    dynamoDbStreamPlaces({
      client: tables.client,
      table,
      caps,
      streamLifeSeconds: 300,
      log: SILENT,
      now: () => clock.now,
    });
  const open = async (places: DynamoDbStreamPlaces, sessionId: string) => places.take({ keyId: "key_1", sessionId });
  const items = async () => (await tables.client.send(new ScanCommand({ TableName: table }))).Items ?? [];

  test("are counted over all environments", async () => {
    await open(environment(), "sesn_1");
    await open(environment(), "sesn_2");

    await expect(open(environment(), "sesn_3")).rejects.toThrow("2 streams are open with this key");
  });

  test("that nobody gave back are free a minute after their stream would have ended", async () => {
    await open(environment(), "sesn_1");
    await open(environment(), "sesn_2");

    clock.now += 359_000;
    await expect(open(environment(), "sesn_3")).rejects.toThrow("2 streams are open with this key");
    clock.now += 1000;
    await open(environment(), "sesn_3");
  });

  test("are an item of the key's and one of the session's, which expire", async () => {
    await open(environment(), "sesn_1");

    const written = (await items()).sort((a, b) => String(a["topic"]?.S).localeCompare(String(b["topic"]?.S)));
    const at = { S: expect.stringMatching(/^[0-9a-f-]{36}$/) };
    expect(written).toEqual([
      { topic: { S: "streams of key_1" }, at, expires: { N: "1700000360" } },
      { topic: { S: "streams of sesn_1" }, at, expires: { N: "1700000360" } },
    ]);
  });

  test("are settled when those that were given back without waiting are free", async () => {
    const places = environment();
    const release = await open(places, "sesn_1");
    void release();

    await places.settled();

    expect(await items()).toEqual([]);
  });

  test("are not counted while DynamoDB cannot be reached, and streams are let in", async () => {
    const warnings: string[] = [];
    const client = dynamoDbAt("http://127.0.0.1:1");
    const places = dynamoDbStreamPlaces({
      client,
      table: "live",
      caps: { perKey: 1, perSession: 1 },
      streamLifeSeconds: 300,
      log: { ...SILENT, warn: (message) => void warnings.push(message) },
    });

    const release = await open(places, "sesn_1");
    await release();
    await places.settled();

    expect(new Set(warnings)).toEqual(
      new Set(["The places of streams cannot be counted; streams are let in without."]),
    );
    client.destroy();
  });
});
