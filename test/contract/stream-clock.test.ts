/** What takes minutes: one stream by itself on a real ledger, its intervals moved by hand. */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from "vitest";
import type { Transaction } from "../../shared/db/transaction.ts";
import { LedgerWatch } from "../../shared/live/ledger-watch.ts";
import type { LiveChannel } from "../../shared/live/live-channel.ts";
import { openSessionStream, type SessionStreamParams } from "../../shared/live/session-stream.ts";
import { comment, frame } from "../../shared/live/sse.ts";
import { EventFeed } from "../e2e/event-feed.ts";
import { type ScriptedServer, startScriptedServer, startSilentProvider } from "../e2e/scripted-model.ts";
import { API_KEY } from "../server.ts";
import { type Api, apiOf, type Body } from "./api.ts";
import { message, newSession, send } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let silent: Awaited<ReturnType<typeof startSilentProvider>>;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  // Turns begin and never end, so that a session's ledger stands still.
  silent = await startSilentProvider();
  scripted.pointTo(silent.url);
  api = apiOf(scripted.server);
});
afterAll(async () => {
  silent.close();
  await scripted.close();
});
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A live channel that loses every message. */
const deaf: LiveChannel = { publish: async () => {}, subscribe: () => ({ pollEvery() {}, close() {} }) };
const log = { debug() {}, info() {}, warn() {}, error() {} };

interface Opened {
  readonly chunks: string[];
  readonly stream: ReadableStream<Uint8Array>;
  readonly onEnd: ReturnType<typeof vi.fn>;
  done: boolean;
}

async function open(
  sessionId: string,
  params: Partial<SessionStreamParams> = {},
  services: { database?: Transaction; reads?: boolean } = {},
): Promise<Opened> {
  const database = services.database ?? scripted.server.database.pool;
  const onEnd = vi.fn();
  const stream = await openSessionStream(
    { database, live: deaf, watch: new LedgerWatch(scripted.server.database.pool), log },
    {
      sessionId,
      threadId: null,
      afterSeq: null,
      previews: new Set(),
      lifeMs: null,
      stillAllowed: async () => true,
      mayBeShown: async () => true,
      onEnd,
      ...params,
    },
  );
  const opened: Opened = { chunks: [], stream, onEnd, done: false };
  if (services.reads !== false) {
    void (async () => {
      for await (const chunk of stream) opened.chunks.push(new TextDecoder().decode(chunk));
      opened.done = true;
    })();
  }
  return opened;
}

/** Moves the clock second by second, giving the ledger's queries time to answer. */
async function pass(seconds: number, each: (second: number) => void = () => {}): Promise<void> {
  for (let second = 1; second <= seconds; second += 1) {
    await vi.advanceTimersByTimeAsync(1000);
    if (second % 5 === 0) await sleep(5);
    each(second);
  }
}
const create = () => newSession(api, scripted.server.environmentId);

verifies("streams:keep-alive", async () => {
  const opened = await open((await create()).id);
  await sleep(50);
  const seen: number[] = [];
  let before = opened.chunks.length;
  await pass(70, (second) => {
    if (opened.chunks.length > before) seen.push(second);
    before = opened.chunks.length;
  });
  expect(opened.chunks.every((chunk) => /^: .*\n\n$/.test(chunk))).toBe(true);
  expect(seen.length).toBeGreaterThanOrEqual(4);
  const gaps = [0, ...seen].map((second, n) => (seen[n] ?? 70) - second);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(15);
  expect(opened.done).toBe(false);
  await opened.stream.cancel().catch(() => {});
});

verifies("streams:life", async () => {
  const opened = await open((await create()).id, { lifeMs: 14 * 60_000 });
  await sleep(50);
  await pass(14 * 60 - 1);
  expect(opened.done).toBe(false);
  await pass(2);
  await sleep(20);
  expect(opened.done).toBe(true);
  expect(opened.chunks.at(-1)).toMatch(/^retry: \d+\n\n$/);
  expect(opened.onEnd).toHaveBeenCalledTimes(1);
});

/** A session with 100 queued messages of 100 kB, and a database that counts what is read of them. */
async function longLedger() {
  const session = await create();
  const events = Array.from({ length: 100 }, (_, n) => message(`${n} ${"x".repeat(100_000)}`));
  await send(api, session, ...events);
  const read = { bytes: 0 };
  const { pool } = scripted.server.database;
  const database: Transaction = {
    query: async (text, values) => {
      const result = await pool.query(text, values as unknown[]);
      read.bytes += JSON.stringify(result.rows).length;
      return result as never;
    },
  };
  return { session, database, read };
}

verifies("streams:slow-reader", "cut off", async () => {
  const { session, database } = await longLedger();
  const opened = await open(session.id, { afterSeq: 0 }, { database, reads: false });
  await sleep(200);
  await pass(120);
  expect(opened.onEnd).toHaveBeenCalledTimes(1);
});
verifies("streams:slow-reader", "not buffered: at most 4 MB of 10 are read for it", async () => {
  const { session, database, read } = await longLedger();
  const opened = await open(session.id, { afterSeq: 0 }, { database, reads: false });
  await sleep(300);
  expect(read.bytes).toBeLessThan(4_000_000);
  await opened.stream.cancel();
});
verifies("streams:slow-reader", "its connection is cut, and what waited for it is thrown away", async () => {
  const { session } = await longLedger();
  await send(api, session, ...Array.from({ length: 100 }, () => message("y".repeat(100_000))));
  const { hostname, port } = new URL(scripted.server.url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.pause();
  const path = `/v1/sessions/${session.id}/events/stream?after=0`;
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nx-api-key: ${API_KEY}\r\n\r\n`);
  await sleep(500);
  await pass(120);
  let bytes = 0;
  socket.on("data", (chunk) => {
    bytes += chunk.length;
  });
  socket.resume();
  await sleep(1000);
  socket.destroy();
  // 20 MB wait; some of them are in the operating system's buffers and out of our hands.
  expect(bytes).toBeLessThan(12_000_000);
});
verifies("streams:slow-reader", "one that reads on gets all of it", async () => {
  const { session, database } = await longLedger();
  const opened = await open(session.id, { afterSeq: 0 }, { database });
  for (
    let tries = 0;
    tries < 200 && opened.chunks.filter((chunk) => chunk.includes("user.message")).length < 100;
    tries += 1
  ) {
    await vi.advanceTimersByTimeAsync(100);
    await sleep(20);
  }
  expect(
    opened.chunks.filter((chunk) => chunk.startsWith("id: ") && chunk.includes("event: user.message")),
  ).toHaveLength(100);
  await opened.stream.cancel().catch(() => {});
});

verifies("streams:lost-wake-up", async () => {
  const session = await create();
  const opened = await open(session.id);
  await sleep(50);
  await send(api, session, message("did you hear?"));
  await pass(15);
  await sleep(50);
  expect(opened.chunks.join("")).toContain("did you hear?");
  await opened.stream.cancel().catch(() => {});
});

verifies("streams:line-breaks", "none in a field of a frame", async () => {
  for (const bad of ["a\nid: 9", "a\rb", "a\r\nb", "\n"]) expect(() => frame(bad, "{}")).toThrow();
  expect(new TextDecoder().decode(comment("ok"))).toBe(": ok\n\n");
});

verifies(
  "streams:attach",
  "what is sent as soon as the stream has answered is shown, however slow the ledger is read",
  async () => {
    vi.useRealTimers();
    const { database } = scripted.server.product;
    const query = database.query.bind(database);
    const slow = vi.spyOn(database, "query").mockImplementation((async (text: string, values: readonly unknown[]) => {
      // The stream's look at the head of the ledger: the only read of last_seq that no request waits for.
      if (/last_seq/.test(text)) await sleep(400);
      return query(text, values);
    }) as never);
    const session: Body = await create();
    const feed = await EventFeed.open(scripted.server, session.id);
    await feed.frame(() => true);
    const [stored] = await send(api, session, message("at once"));
    const seen = await feed.until(({ type }) => type === "user.message").catch((error: Error) => error);
    slow.mockRestore();
    feed.close();
    expect(seen).toMatchObject({ id: stored?.id });
  },
);
