import { describe, expect, it } from "vitest";
import { apiClient } from "./api-client.ts";
import { heartbeatIntervalMs, Lease } from "./lease.ts";
import { ContractServer, failure } from "./testing/contract-server.ts";
import { noAbort, silentLog } from "./testing/temporary.ts";

const HEARTBEAT = "/heartbeat";

/** A lease whose waits end at once, `beats` times; then they last until the lease ends. */
async function leaseOn(server: ContractServer, options: { readonly beats?: number; readonly now?: () => number } = {}) {
  const item = server.enqueue("sesn_1");
  const waits: number[] = [];
  const lease = new Lease({
    client: apiClient({ baseURL: server.url, token: "token-1" }),
    environmentId: "env_1",
    workId: item.id,
    log: silentLog,
    ...(options.now === undefined ? {} : { now: options.now }),
    wait: async (ms, signal) => {
      waits.push(ms);
      if (waits.length > (options.beats ?? 0) && !signal.aborted) {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      }
    },
  });
  return { lease, waits, item };
}

const ended = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

const expectations = (server: ContractServer) =>
  server.requests
    .filter(({ path }) => path.endsWith(HEARTBEAT))
    .map(({ query }) => query.get("expected_last_heartbeat"));
const stops = (server: ContractServer) => server.requests.filter(({ path }) => path.endsWith("/stop"));

describe("heartbeats", () => {
  it("claim with NO_HEARTBEAT, then echo the server's last answer", async () => {
    const server = await ContractServer.start();
    const { lease, item } = await leaseOn(server, { beats: 2 });
    await lease.claim(noAbort);
    expect(item.state).toBe("active");
    expect(expectations(server)[0]).toBe("NO_HEARTBEAT");
    while (expectations(server).length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    await lease.release();
    expect(expectations(server)).toEqual([
      "NO_HEARTBEAT",
      "2026-12-01T00:00:00.000001Z",
      "2026-12-01T00:00:00.000002Z",
    ]);
  });

  it("come at half the lease's life, between one second and thirty", () => {
    expect(heartbeatIntervalMs(20)).toBe(10_000);
    expect(heartbeatIntervalMs(1)).toBe(1_000);
    expect(heartbeatIntervalMs(300)).toBe(30_000);
  });

  it("wait as long as the server's answer says", async () => {
    const server = await ContractServer.start();
    server.ttlSeconds = 8;
    const { lease, waits } = await leaseOn(server);
    await lease.claim(noAbort);
    await lease.release();
    expect(lease.ttlMs).toBe(8_000);
    expect(waits).toEqual([4_000]);
  });

  it("are tried again soon after one that failed: the next in its turn would find the lease run out", async () => {
    const server = await ContractServer.start();
    const { lease, waits } = await leaseOn(server, { beats: 3 });
    await lease.claim(noAbort);
    const broken = failure(503, "api_error", { "x-should-retry": "false" });
    server.next(HEARTBEAT, broken);
    server.next(HEARTBEAT, broken);
    while (expectations(server).length < 4) await new Promise((resolve) => setTimeout(resolve, 5));
    await lease.release();
    expect(lease.end).toBe("released");
    expect(waits).toEqual([30_000, 5_000, 5_000, 30_000]);
  });

  it("keep the earlier life when the answer names none", async () => {
    const server = await ContractServer.start();
    server.ttlSeconds = 0;
    const { lease, waits } = await leaseOn(server);
    await lease.claim(noAbort);
    await lease.release();
    expect(lease.ttlMs).toBe(90_000);
    expect(waits).toEqual([30_000]);
  });
});

describe("the end of a lease", () => {
  it("confirms its release with a forced stop", async () => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server);
    await lease.claim(noAbort);
    await lease.release();
    expect(lease.end).toBe("released");
    expect(stops(server).map(({ body }) => body)).toEqual([{ force: true }]);
  });

  it("takes 409 on the stop as done", async () => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server);
    await lease.claim(noAbort);
    server.next("/stop", failure(409, "conflict_error", { "x-should-retry": "false" }));
    await lease.release();
    expect(stops(server).length).toBe(1);
  });

  it.each([["stopping"], ["stopped"]])("follows a state of %s with a forced stop", async (state) => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server, { beats: 1 });
    await lease.claim(noAbort);
    server.heartbeatState = state;
    await ended(lease.signal);
    await lease.release();
    expect(lease.end).toBe("stop_requested");
    expect(lease.lost).toBe(false);
    expect(stops(server).length).toBe(1);
  });

  it("on 412 is a loss: nothing is stopped", async () => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server, { beats: 1 });
    server.next(HEARTBEAT, {
      status: 200,
      body: { type: "work_heartbeat", last_heartbeat: "A", lease_extended: true, state: "active", ttl_seconds: 60 },
    });
    await lease.claim(noAbort);
    await ended(lease.signal);
    await lease.release();
    expect(lease.end).toBe("lost");
    expect(lease.lost).toBe(true);
    expect(stops(server).length).toBe(0);
  });

  it("on another refusal still stops the item", async () => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server);
    server.next(HEARTBEAT, failure(403, "permission_error"));
    await lease.claim(noAbort);
    await lease.release();
    expect(lease.end).toBe("refused");
    expect(stops(server).length).toBe(1);
  });

  it("on silence for longer than its life is assumed lost: nothing is stopped", async () => {
    const server = await ContractServer.start();
    let clock = 0;
    const { lease } = await leaseOn(server, { beats: 5, now: () => clock });
    server.ttlSeconds = 10;
    await lease.claim(noAbort);
    clock = 10_001;
    server.next(HEARTBEAT, failure(500, "api_error", { "x-should-retry": "false" }));
    await ended(lease.signal);
    await lease.release();
    expect(lease.end).toBe("assumed_lost");
    expect(stops(server).length).toBe(0);
  });

  it("survives a failure within its life", async () => {
    const server = await ContractServer.start();
    const { lease } = await leaseOn(server, { beats: 2 });
    server.next(HEARTBEAT, failure(500, "api_error", { "x-should-retry": "false" }));
    await lease.claim(noAbort);
    expect(lease.end).toBe(null);
    expect(expectations(server).slice(0, 2)).toEqual(["NO_HEARTBEAT", "NO_HEARTBEAT"]);
    await lease.release();
    expect(lease.end).toBe("released");
  });
});
