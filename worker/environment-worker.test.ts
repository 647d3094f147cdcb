import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { eventually } from "../test/eventually.ts";
import { statusOf } from "./api-client.ts";
import { EnvironmentWorker, type EnvironmentWorkerOptions } from "./environment-worker.ts";
import type { Launcher } from "./sandbox/launcher.ts";
import { processLauncher } from "./sandbox/process-launcher.ts";
import { ContractServer, failure } from "./testing/contract-server.ts";
import { silentLog, temporaryDirectory } from "./testing/temporary.ts";

async function start(options: Partial<EnvironmentWorkerOptions> = {}) {
  const server = await ContractServer.start();
  const workspaceRoot = await temporaryDirectory();
  const stop = new AbortController();
  const worker = new EnvironmentWorker({
    url: server.url,
    environmentId: "env_1",
    environmentKey: "environment-key",
    workspaceRoot,
    launcher: processLauncher,
    log: silentLog,
    ...options,
  });
  const run = () => {
    const done = worker.run(stop.signal);
    onTestFinished(async () => {
      stop.abort();
      await done.catch(() => {});
    });
    return done;
  };
  return { server, workspaceRoot, stop, run };
}

const noLauncher: Launcher = { name: "bwrap", enter: () => Promise.reject(new Error("/srv/secret is missing")) };
const call = (name: string, input: unknown) => ({ type: "agent.tool_use", name, input });
const itemCalls = (server: ContractServer) => server.requests.filter(({ path }) => !path.endsWith("/poll"));

describe("EnvironmentWorker", () => {
  it("claims, holds the lease, serves the session with the item's token, and gives the item back", async () => {
    const { server, workspaceRoot, run } = await start({ maxIdleMs: 1 });
    server.append("sesn_1", call("write", { file_path: "a.txt", content: "mango" }));
    server.append("sesn_1", call("bash", { command: "cat a.txt; pwd" }));
    const item = server.enqueue("sesn_1");
    void run();
    await eventually(() => expect(server.results("sesn_1").length).toBe(2));
    server.append("sesn_1", { type: "session.status_idle", stop_reason: { type: "end_turn" } });
    await eventually(() => expect(item.state).toBe("stopped"));

    expect(server.results("sesn_1")).toMatchObject([
      { is_error: false, content: [{ text: "wrote 5 bytes to a.txt" }] },
      { is_error: false, content: [{ text: `mango${join(workspaceRoot, "sesn_1")}` }] },
    ]);
    expect(await readFile(join(workspaceRoot, "sesn_1", "a.txt"), "utf8")).toBe("mango");
    expect(itemCalls(server).map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /v1/environments/env_1/work/work_1/ack",
      "POST /v1/environments/env_1/work/work_1/heartbeat",
      "GET /v1/sessions/sesn_1",
      "GET /v1/sessions/sesn_1/events/stream",
      "GET /v1/sessions/sesn_1/events",
      "POST /v1/sessions/sesn_1/events",
      "POST /v1/sessions/sesn_1/events",
      "POST /v1/environments/env_1/work/work_1/stop",
    ]);
    const [ack, ...rest] = itemCalls(server);
    expect(ack?.headers.authorization).toBe("Bearer environment-key");
    for (const request of rest) expect(request.headers.authorization).toBe("Bearer token-1");
    expect(rest.at(-1)?.body).toEqual({ force: true });
  });

  it("does not confirm a stop while a call that it began has no answer: only the lease's end tells of an unknown effect", async () => {
    const { server, stop, run } = await start({ drainMs: 300 });
    const refusal = failure(503, "api_error", { "x-should-retry": "false" });
    for (let n = 0; n < 20; n += 1) server.next("POST /v1/sessions/sesn_1/events", refusal);
    server.append("sesn_1", call("bash", { command: "echo done" }));
    server.enqueue("sesn_1");
    const done = run();
    await eventually(() => expect(server.calls()).toContain("POST /v1/sessions/sesn_1/events"));

    stop.abort();
    await done;

    expect(server.results("sesn_1")).toEqual([]);
    expect(server.calls().filter((made) => made.endsWith("/stop"))).toEqual([]);
  });

  it("does not run tools of a terminated session", async () => {
    const { server, run } = await start();
    server.append("sesn_1", call("bash", { command: "true" }));
    server.session("sesn_1").status = "terminated";
    const item = server.enqueue("sesn_1");
    void run();
    await eventually(() => expect(item.state).toBe("stopped"));
    expect(server.calls().some((request) => request.includes("/events"))).toBe(false);
  });

  it("answers a health check by launching, holding the lease and stopping, without a session", async () => {
    const { server, run } = await start();
    const item = server.enqueue("check_1", { type: "healthcheck" });
    void run();
    await eventually(() => expect(item.state).toBe("stopped"));
    expect(itemCalls(server).map(({ path }) => path.split("/").at(-1))).toEqual([
      "ack",
      "heartbeat",
      "heartbeat",
      "stop",
    ]);
    expect(server.calls().some((request) => request.includes("/sessions/"))).toBe(false);
  });

  it("fails a health check where tools do not run, and says which launcher", async () => {
    const { server, run } = await start({ launcher: noLauncher });
    server.enqueue("check_1", { type: "healthcheck" });
    void run();
    await eventually(() => expect(server.calls().at(-1)).toBe("POST /v1/environments/env_1/work/work_1/fail"));
    const last = server.requests.at(-1);
    expect(last?.headers.authorization).toBe("Bearer token-1");
    expect(last?.body).toEqual({ message: "Tools do not run on this worker: its bwrap launcher failed a trial." });
  });

  it("gives a session up that it cannot prepare, in words without this host's details", async () => {
    const { server, run } = await start({ launcher: noLauncher });
    server.append("sesn_1", call("bash", { command: "true" }));
    server.enqueue("sesn_1");
    void run();
    await eventually(() => expect(server.calls().filter((path) => path.endsWith("/fail"))).toHaveLength(1));
    const failed = server.requests.find(({ path }) => path.endsWith("/fail"));
    expect(failed?.body).toEqual({ message: "The worker could not prepare the session's sandbox." });
    expect(server.calls().some((path) => path.endsWith("/stop"))).toBe(false);
  });

  it("gives back what it does not know without running anything", async () => {
    const { server, run } = await start();
    const item = server.enqueue("other_1", { type: "something_new" });
    void run();
    await eventually(() => expect(item.state).toBe("stopped"));
    expect(server.calls().some((request) => request.includes("/sessions/"))).toBe(false);
  });

  it("falls back to the environment key when the item has no token", async () => {
    const { server, run } = await start();
    server.append("sesn_1", call("bash", { command: "true" }));
    server.enqueue("sesn_1", { secret: null });
    void run();
    await eventually(() => expect(server.results("sesn_1").length).toBe(1));
    for (const request of server.requests) expect(request.headers.authorization).toBe("Bearer environment-key");
  });

  it("does nothing with an item whose lease is already another's", async () => {
    const { server, run } = await start();
    server.append("sesn_1", call("bash", { command: "true" }));
    const taken = server.enqueue("sesn_1");
    taken.lastHeartbeat = "2026-12-01T00:00:00Z";
    const free = server.enqueue("sesn_2", { type: "healthcheck" });
    void run();
    await eventually(() => expect(free.state).toBe("stopped"));
    expect(taken.state).toBe("starting");
    expect(server.calls().some((request) => request.includes("/sessions/sesn_1"))).toBe(false);
  });

  it("serves several sessions at once, up to its limit", async () => {
    const { server, workspaceRoot, run } = await start({ concurrency: 2 });
    const wait = "echo here > here; while [ ! -e go ]; do sleep 0.02; done; echo gone";
    for (const id of ["sesn_1", "sesn_2", "sesn_3"]) {
      server.append(id, call("bash", { command: wait }));
      server.enqueue(id);
    }
    const marker = (id: string) => readFile(join(workspaceRoot, id, "here"), "utf8");
    void run();
    await eventually(async () =>
      expect([await marker("sesn_1"), await marker("sesn_2")]).toEqual(["here\n", "here\n"]),
    );
    expect(server.items.map(({ state }) => state)).toEqual(["active", "active", "queued"]);
  });

  it("one failing item does not end the worker", async () => {
    const { server, run } = await start();
    server.next("/v1/sessions/sesn_1", failure(404, "not_found_error"));
    const bad = server.enqueue("sesn_1");
    server.append("sesn_2", call("bash", { command: "echo fine" }));
    server.enqueue("sesn_2");
    void run();
    await eventually(() => expect(server.results("sesn_2").length).toBe(1));
    expect(bad.state).toBe("stopped");
  });

  it("on a stop aborts the tools, delivers, and gives the item back", async () => {
    const { server, workspaceRoot, stop, run } = await start();
    server.append("sesn_1", call("bash", { command: "echo x > begun; sleep 300" }));
    const item = server.enqueue("sesn_1");
    const done = run();
    await eventually(() => readFile(join(workspaceRoot, "sesn_1", "begun")));
    stop.abort();
    await done;
    expect(server.results("sesn_1")).toMatchObject([
      { is_error: true, content: [{ text: "bash: the worker is stopping" }] },
    ]);
    expect(item.state).toBe("stopped");
  });

  it("takes a session back that it had lost, only after the old activation is gone, and runs nothing twice", async () => {
    const { server, workspaceRoot, run } = await start();
    server.ttlSeconds = 2;
    server.append("sesn_1", call("bash", { command: "echo x >> effects; sleep 300" }));
    const lost = server.enqueue("sesn_1");
    void run();
    const effects = () => readFile(join(workspaceRoot, "sesn_1", "effects"), "utf8");
    await eventually(effects);
    lost.lastHeartbeat = "another owner's";
    const again = server.enqueue("sesn_1");
    await eventually(() => expect(server.results("sesn_1").length).toBe(1));
    expect(JSON.stringify(server.results("sesn_1"))).toContain("its effect is unknown");
    expect(await effects()).toBe("x\n");
    expect(again.state).toBe("active");
    const sends = server.requests.filter(({ method, path }) => method === "POST" && path.endsWith("/events"));
    expect(sends.map(({ headers }) => headers.authorization)).toEqual(["Bearer token-2"]);
    expect(server.calls()).not.toContain(`POST /v1/environments/env_1/work/${lost.id}/stop`);
  });

  it("rejects when the key is refused", async () => {
    const { server, run } = await start();
    server.next("/work/poll", failure(401, "authentication_error"));
    expect(await run().catch(statusOf)).toBe(401);
  });
});
