import { describe, expect, it } from "vitest";
import { apiClient, statusOf } from "./api-client.ts";
import { ContractServer, failure } from "./testing/contract-server.ts";
import { silentLog } from "./testing/temporary.ts";
import { WorkPoller } from "./work-poller.ts";

const POLL = "/work/poll";

interface PollerSetup {
  readonly blockMs?: number;
  readonly onReady?: () => void;
  /** What each look at the clock adds. */
  readonly clockStep?: number;
}

function pollerOn(server: ContractServer, { blockMs = 20_000, onReady, clockStep = 0 }: PollerSetup = {}) {
  const waits: number[] = [];
  let clock = 0;
  const poller = new WorkPoller({
    client: apiClient({ baseURL: server.url, token: "environment-key" }),
    environmentId: "env_1",
    workerId: "worker-1",
    blockMs,
    log: silentLog,
    ...(onReady === undefined ? {} : { onReady }),
    now: () => {
      clock += clockStep;
      return clock;
    },
    wait: async (ms) => {
      waits.push(ms);
    },
  });
  return { poller, waits };
}

async function take(poller: WorkPoller, count: number): Promise<readonly string[]> {
  const stop = new AbortController();
  const ids: string[] = [];
  for await (const work of poller.items(stop.signal)) {
    ids.push(work.id);
    if (ids.length === count) stop.abort();
  }
  return ids;
}

describe("WorkPoller", () => {
  it("polls with the key and the worker's id, acknowledges, and hands the item over with its secret", async () => {
    const server = await ContractServer.start();
    server.enqueue("sesn_1", { secret: "c2VjcmV0" });
    const stop = new AbortController();
    for await (const work of pollerOn(server).poller.items(stop.signal)) {
      expect(work).toMatchObject({ id: "work_1", secret: "c2VjcmV0", data: { type: "session", id: "sesn_1" } });
      expect(server.items[0]?.state).toBe("starting");
      stop.abort();
    }
    expect(server.calls()).toEqual([
      "GET /v1/environments/env_1/work/poll",
      "POST /v1/environments/env_1/work/work_1/ack",
    ]);
    expect(server.requests[0]?.headers).toMatchObject({
      authorization: "Bearer environment-key",
      "anthropic-worker-id": "worker-1",
      "anthropic-beta": "managed-agents-2026-04-01",
    });
    expect(server.requests[0]?.headers["x-api-key"]).toBe(undefined);
  });

  it("does not block the first poll and says that it is ready; later ones block for the given time", async () => {
    const server = await ContractServer.start();
    const readyAt: number[] = [];
    const { poller, waits } = pollerOn(server, { onReady: () => readyAt.push(server.requests.length) });
    const taken = take(poller, 1);
    while (server.requests.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    server.enqueue("sesn_1");
    expect(await taken).toEqual(["work_1"]);
    expect(server.requests.slice(0, 2).map(({ query }) => query.get("block_ms"))).toEqual([null, "20000"]);
    expect(readyAt).toEqual([1]);
    expect(waits).toEqual([]);
  });

  it("repeats a held poll at once, and pauses longer and longer after empty answers that come early", async () => {
    const server = await ContractServer.start();
    const empty = { status: 200, body: null };
    const held = pollerOn(server, { clockStep: 10_000 });
    for (let i = 0; i < 4; i += 1) server.next(POLL, empty);
    server.enqueue("sesn_1");
    await take(held.poller, 1);
    expect(held.waits).toEqual([]);

    const early = pollerOn(server, { clockStep: 0 });
    for (let i = 0; i < 4; i += 1) server.next(POLL, empty);
    server.enqueue("sesn_2");
    await take(early.poller, 1);
    expect(early.waits.length).toBe(3);
    for (const [i, base] of [50, 100, 200].entries()) {
      expect(early.waits[i]).toBeGreaterThan(base * 0.75 - 1);
      expect(early.waits[i]).toBeLessThanOrEqual(base);
    }
  });

  it("backs off on errors and goes on", async () => {
    const server = await ContractServer.start();
    for (const status of [500, 429, 408, 409]) server.next(POLL, failure(status, "api_error"));
    server.next(POLL, "hang up");
    server.enqueue("sesn_1");
    const { poller, waits } = pollerOn(server);
    expect(await take(poller, 1)).toEqual(["work_1"]);
    expect(waits.length).toBe(5);
    for (const [i, base] of [1_000, 2_000, 4_000, 8_000, 16_000].entries()) {
      expect(waits[i]).toBeGreaterThan(base * 0.75 - 1);
      expect(waits[i]).toBeLessThanOrEqual(base);
    }
  });

  it.each([[400], [401], [403], [404]])("ends on %i", async (status) => {
    const server = await ContractServer.start();
    server.next(POLL, failure(status, "invalid_request_error"));
    const { poller } = pollerOn(server);
    const error = await take(poller, 1).catch((reason: unknown) => reason);
    expect(statusOf(error)).toBe(status);
    expect(server.requests.length).toBe(1);
  });

  it("leaves an item alone that it could not acknowledge", async () => {
    const server = await ContractServer.start();
    server.next("/ack", failure(404, "not_found_error"));
    server.enqueue("sesn_1");
    server.enqueue("sesn_2");
    expect(await take(pollerOn(server).poller, 1)).toEqual(["work_2"]);
  });

  it("ends at once when it is stopped during a poll", async () => {
    const server = await ContractServer.start();
    const stop = new AbortController();
    const { poller } = pollerOn(server);
    const all = poller.items(stop.signal).next();
    while (server.requests.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    stop.abort();
    expect(await all).toEqual({ done: true, value: undefined });
  });
});
