import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { CreateTableCommand, DynamoDBClient, waitUntilTableExists } from "@aws-sdk/client-dynamodb";
import dynalite from "dynalite";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type Quiet, quietMarker } from "./quiet.ts";
import { quietFront } from "./quiet-front.ts";

const MINUTE = 60_000;
const server = dynalite({ createTableMs: 0 });
let client: DynamoDBClient;
/** Time passes when a test says so. */
let now = 1_800_000_000_000;
let quiet: Quiet;
let table = 0;

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  client = new DynamoDBClient({
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    region: "eu-central-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
  });
});
afterAll(async () => {
  client.destroy();
  await new Promise((resolve) => server.close(resolve));
});
beforeEach(async () => {
  table += 1;
  const TableName = `live${table}`;
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: "PAY_PER_REQUEST",
      AttributeDefinitions: [
        { AttributeName: "topic", AttributeType: "S" },
        { AttributeName: "at", AttributeType: "S" },
      ],
      KeySchema: [
        { AttributeName: "topic", KeyType: "HASH" },
        { AttributeName: "at", KeyType: "RANGE" },
      ],
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 10, minDelay: 0.01, maxDelay: 0.1 }, { TableName });
  quiet = quietMarker({ client, table: TableName, now: () => now });
});

const app = vi.fn<(request: Request) => Promise<Response>>(async () => Response.json({ from: "the database" }));
beforeEach(() => app.mockClear());
const front = (streamLifeMs = 0) => quietFront(app, { quiet, streamLifeMs });
const ask = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  new Request(`https://mango.example${path}`, { ...init, headers: { "x-api-key": "sk-1", ...headers } });
const POLL = "/v1/environments/env_1/work/poll";
const STREAM = "/v1/sessions/sesn_1/events/stream";

describe("a deployment", () => {
  test("is quiet from the start, and again ten minutes after the last activity", async () => {
    expect(await quiet.isQuiet()).toBe(true);

    await front()(ask("/v1/sessions", {}, { method: "POST", body: "{}" }));
    expect(await quiet.isQuiet()).toBe(false);

    now += 10 * MINUTE - 1;
    expect(await quiet.isQuiet()).toBe(false);
    now += 1;
    expect(await quiet.isQuiet()).toBe(true);
  });

  test("is not kept awake by those who only wait, nor by a look at its health", async () => {
    await front()(ask(POLL));
    await front()(ask(STREAM, { "last-event-id": "3" }));
    await front()(ask("/healthz"));

    expect(app).toHaveBeenCalledTimes(3);
    expect(await quiet.isQuiet()).toBe(true);
  });
});

describe("while all is quiet", () => {
  test("a worker that the database has let in is answered without it, and another is not", async () => {
    await front()(ask(POLL));
    app.mockClear();

    const answer = await front()(ask(POLL));
    await front()(ask(POLL, { "x-api-key": "sk-other" }));
    await front()(ask("/v1/environments/env_2/work/poll"));

    expect(await answer.json()).toBeNull();
    expect(
      app.mock.calls.map(([request]) => [request.headers.get("x-api-key"), new URL(request.url).pathname]),
    ).toEqual([
      ["sk-other", POLL],
      ["sk-1", "/v1/environments/env_2/work/poll"],
    ]);
  });

  test("a key that the database refuses leaves no pass", async () => {
    app.mockResolvedValueOnce(Response.json({}, { status: 401 }));
    await front()(ask(POLL));
    await front()(ask(POLL));

    expect(app).toHaveBeenCalledTimes(2);
  });

  test("a pass is good for a day", async () => {
    await front()(ask(POLL));
    now += 24 * 60 * MINUTE;
    await front()(ask(POLL));

    expect(app).toHaveBeenCalledTimes(2);
  });

  test("a stream that comes back is held open, and told to come again at the end of its life", async () => {
    await front()(ask(STREAM, { "last-event-id": "3" }));
    app.mockClear();

    const held = await front(1)(ask(STREAM, { "last-event-id": "3" }));

    expect(held.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(await held.text()).toBe(": quiet\n\nretry: 500\n\n");
    expect(app).not.toHaveBeenCalled();
  });

  test("a held stream ends at once when somebody is active", async () => {
    await front()(ask(STREAM, { "last-event-id": "3" }));
    const held = await front(10 * MINUTE)(ask(STREAM, { "last-event-id": "3" }));
    const reader = held.body?.getReader() ?? expect.fail("no body");
    expect(Buffer.from((await reader.read()).value ?? "").toString()).toBe(": quiet\n\n");

    await quiet.note();

    expect(Buffer.from((await reader.read()).value ?? "").toString()).toBe("retry: 500\n\n");
    expect((await reader.read()).done).toBe(true);
  });

  test("a stream that comes for the first time is somebody who is there", async () => {
    await front()(ask(STREAM));

    expect(app).toHaveBeenCalledTimes(1);
    expect(await quiet.isQuiet()).toBe(false);
  });

  test("the app's own stream is ended, because it reads the database", async () => {
    const frames = new TransformStream<Uint8Array, Uint8Array>();
    const writer = frames.writable.getWriter();
    app.mockResolvedValueOnce(new Response(frames.readable, { headers: { "content-type": "text/event-stream" } }));
    const answer = await front()(ask(STREAM));
    now += 10 * MINUTE;

    expect(await answer.text()).toBe("retry: 500\n\n");
    await expect(writer.closed).rejects.toBeUndefined();
  });
});
