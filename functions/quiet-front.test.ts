import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { memoryStreamPlaces } from "../shared/live/memory-stream-places.ts";
import type { StreamPlaces } from "../shared/live/stream-places.ts";
import { type LiveTables, liveTables } from "../test/live-table.ts";
import { type Quiet, quietMarker } from "./quiet.ts";
import { quietFront } from "./quiet-front.ts";

const MINUTE = 60_000;
let tables: LiveTables;
/** Time passes when a test says so. */
let now = 1_800_000_000_000;
let quiet: Quiet;
let streamPlaces: StreamPlaces;

beforeAll(async () => {
  tables = await liveTables();
});
afterAll(() => tables.close());
beforeEach(async () => {
  quiet = quietMarker({ client: tables.client, table: await tables.empty(), now: () => now });
  streamPlaces = memoryStreamPlaces({ perKey: 2, perSession: 2 });
  // The upkeep of the quiet before the test.
  await quiet.tellQueued([]);
});

const app = vi.fn<(request: Request) => Promise<Response>>(async () => Response.json({ from: "the database" }));
beforeEach(() => app.mockClear());
const front = (streamLifeMs = 0) => quietFront(app, { quiet, streamPlaces, streamLifeMs, lookMs: 10 });
const ask = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
  new Request(`https://mango.example${path}`, { ...init, headers: { "x-api-key": "sk-1", ...headers } });
const POLL = "/v1/environments/env_1/work/poll";
const STREAM = "/v1/sessions/sesn_1/events/stream";

/** The app's next stream: what is written is shown, and it stays open. */
function appStreams(): WritableStreamDefaultWriter<Uint8Array> {
  const frames = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 100 });
  app.mockResolvedValueOnce(new Response(frames.readable, { headers: { "content-type": "text/event-stream" } }));
  const writer = frames.writable.getWriter();
  writer.closed.catch(() => {});
  return writer;
}
const event = (seq: number) => Buffer.from(`id: ${seq}\nevent: agent.message\ndata: {"id":${seq}}\n\n`);

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

  test("work that is queued in an environment is what its polls wake the database for, and no others", async () => {
    await front()(ask(POLL));
    await front()(ask("/v1/environments/env_2/work/poll"));
    app.mockClear();
    await quiet.tellQueued(["env_2"]);

    const [mine, other] = [
      await front()(ask(POLL)),
      await front()(ask("/v1/environments/env_2/work/poll?block_ms=1000")),
    ];

    expect(await mine.json()).toBeNull();
    expect(await other.json()).toEqual({ from: "the database" });
    expect(app.mock.calls.map(([request]) => request.url)).toEqual([
      "https://mango.example/v1/environments/env_2/work/poll?block_ms=1000",
    ]);
  });

  test("polls go to the database when nobody has looked for queued work since the last activity", async () => {
    await front()(ask(POLL));
    await quiet.note();
    now += 2 * MINUTE - 1;
    await quiet.tellQueued([]);
    now += 8 * MINUTE + 1;
    app.mockClear();

    await front()(ask(POLL));
    expect(app).toHaveBeenCalledTimes(1);

    await quiet.tellQueued([]);
    await front()(ask(POLL));
    expect(app).toHaveBeenCalledTimes(1);
  });

  describe("a poll that waits", () => {
    afterEach(() => void vi.useRealTimers());

    test("goes on in the database for what is left of its time, when somebody becomes active", async () => {
      await front()(ask(POLL));
      app.mockClear();
      vi.useFakeTimers({ toFake: ["Date"], now });
      let looks = 0;
      const isQuiet = async () => {
        looks += 1;
        if (looks === 2) {
          vi.setSystemTime(now + 12_000);
          await quiet.note();
        }
        return quiet.isQuiet();
      };

      const looking = quietFront(app, { quiet: { ...quiet, isQuiet }, streamPlaces, streamLifeMs: 0, lookMs: 10 });
      await looking(ask(`${POLL}?block_ms=20000&reclaim_older_than_ms=100`, { "anthropic-worker-id": "w1" }));

      const [passedOn] = app.mock.calls[0] ?? expect.fail("not passed on");
      expect(passedOn.url).toBe(
        "https://mango.example/v1/environments/env_1/work/poll?block_ms=8000&reclaim_older_than_ms=100",
      );
      expect(Object.fromEntries(passedOn.headers)).toEqual({ "x-api-key": "sk-1", "anthropic-worker-id": "w1" });
    });
  });

  /** The app's stream has shown everything up to 3 since all is quiet. */
  async function shownUpTo3(): Promise<void> {
    const writer = appStreams();
    void writer.write(event(3));
    const answer = await front()(ask(STREAM, { "last-event-id": "2" }));
    expect(await answer.text()).toBe(`${event(3)}retry: 500\n\n`);
    app.mockClear();
  }

  test("a stream that comes back is held open, and told to come again at the end of its life", async () => {
    await shownUpTo3();

    const held = await front(0)(ask(STREAM, { "last-event-id": "3" }));

    expect(held.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(await held.text()).toBe(": quiet\n\nretry: 500\n\n");
    expect(app).not.toHaveBeenCalled();
  });

  test("a held stream ends at once when somebody is active", async () => {
    await shownUpTo3();
    const held = await front(10 * MINUTE)(ask(STREAM, { "last-event-id": "3" }));
    const reader = held.body?.getReader() ?? expect.fail("no body");
    expect(Buffer.from((await reader.read()).value ?? "").toString()).toBe(": quiet\n\n");

    await quiet.note();

    expect(Buffer.from((await reader.read()).value ?? "").toString()).toBe("retry: 500\n\n");
    expect((await reader.read()).done).toBe(true);
  });

  test("streams that are held are capped, and give their places back when they end", async () => {
    await shownUpTo3();
    const hold = (streamLifeMs: number) => front(streamLifeMs)(ask(STREAM, { "last-event-id": "3" }));

    await (await hold(1)).text();
    const gone = await hold(10 * MINUTE);
    await hold(10 * MINUTE);
    await expect(hold(1)).rejects.toThrow("2 streams are open with this key");
    await gone.body?.cancel();

    expect((await hold(1)).status).toBe(200);
    expect(app).not.toHaveBeenCalled();
  });

  test.each([
    ["stands before what was shown", STREAM, "2", "sk-1"],
    ["stands at no position", STREAM, "x", "sk-1"],
    ["is of another session", "/v1/sessions/sesn_2/events/stream", "3", "sk-1"],
    ["has another key", STREAM, "3", "sk-other"],
  ])("a stream that comes back goes to the app when it %s", async (_, path, position, key) => {
    await shownUpTo3();

    await front()(ask(path, { "last-event-id": position, "x-api-key": key }));

    expect(app).toHaveBeenCalledTimes(1);
  });

  test("a stream that comes back goes to the app when somebody was active after it was shown all", async () => {
    await shownUpTo3();
    await quiet.note();
    now += 10 * MINUTE;

    await front()(ask(STREAM, { "last-event-id": "3" }));

    expect(app).toHaveBeenCalledTimes(1);
  });

  test("a stream that comes for the first time is somebody who is there", async () => {
    await front()(ask(STREAM));

    expect(app).toHaveBeenCalledTimes(1);
    expect(await quiet.isQuiet()).toBe(false);
  });

  test("the app's own stream is ended, because it reads the database", async () => {
    const writer = appStreams();
    const answer = await front()(ask(STREAM));
    now += 10 * MINUTE;

    expect(await answer.text()).toBe("retry: 500\n\n");
    await expect(writer.closed).rejects.toBeUndefined();
  });

  test("the app's own stream is not ended before its client has taken what there is", async () => {
    const writer = appStreams();
    const all = Array.from({ length: 20 }, (_, index) => event(index + 1));
    for (const frame of all) void writer.write(frame);
    const reader = (await front()(ask(STREAM, { "last-event-id": "0" }))).body?.getReader();

    let text = "";
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) {
      text += Buffer.from(part.value).toString();
      // Longer than the silence after which a stream has shown everything.
      if (text.length === all[0]?.length) await new Promise((resolve) => setTimeout(resolve, 200));
    }

    expect(text).toBe(`${all.join("")}retry: 500\n\n`);
    await expect(writer.closed).rejects.toBeUndefined();
    expect(await quiet.hasShown("sk-1", STREAM, "20")).toBe(true);
  });
});
