import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LOCAL_WORKSPACE } from "../../local/default-environment.ts";
import { newSecret } from "../../shared/contract/ids.ts";
import { messagesModel } from "../../shared/model/messages-model.ts";
import { addEnvironmentKey } from "../../shared/workspaces/keys.ts";
import { processesOf } from "../e2e/real-server.ts";
import { isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "../e2e/session-driver.ts";
import { type FakeModel, startFakeModel } from "../fake-model/server.ts";
import { startTestServer, type TestServer } from "../server.ts";
import { needBwrap } from "./bwrap-here.ts";
import { type CuttableProxy, startCuttableProxy } from "./cuttable-proxy.ts";
import { temporaryRoot } from "./worker-kinds.ts";
import { startWorkerProcess, type WorkerProcess, type WorkerProcessOptions } from "./worker-process.ts";

const SKEWED_CLOCK = fileURLToPath(new URL("./skewed-clock.mjs", import.meta.url));
/** A cut that the lease does not outlive takes a minute and a half; it is part of the long run. */
const FULL = process.env["FAULTS"] === "full";
const soon = { timeout: 40_000, interval: 50 };
const PATIENCE = 120_000;

describe.each(["process", "bwrap"] as const)("our worker under %s", (launcher) => {
  let provider: FakeModel;
  let server: TestServer;
  let proxy: CuttableProxy;
  let environmentKey: string;
  let place: { readonly root: string; remove(): Promise<void> };
  const workers: WorkerProcess[] = [];
  const sessions: SessionDriver[] = [];

  beforeEach(async (context) => {
    if (launcher === "bwrap") needBwrap(context);
    provider = await startFakeModel();
    server = await startTestServer({ model: model() });
    proxy = await startCuttableProxy(server.url);
    place = await temporaryRoot();
    environmentKey = newSecret("sk-mango-env");
    await addEnvironmentKey(server.product.database, {
      workspaceId: LOCAL_WORKSPACE,
      environmentId: server.environmentId,
      name: "a worker elsewhere",
      secret: environmentKey,
    });
  }, PATIENCE);
  afterEach(async () => {
    for (const session of sessions.splice(0)) session.close();
    await Promise.all(workers.splice(0).map((worker) => worker.kill()));
    await proxy?.close();
    await server?.close();
    await provider?.close();
    await place?.remove();
  }, PATIENCE);

  const model = () => messagesModel({ baseURL: provider.url, apiKey: "provider-key", auth: "x-api-key" });
  const start = async (options: Partial<WorkerProcessOptions> = {}) => {
    const served = { url: proxy.url, environmentId: server.environmentId, environmentKey };
    const worker = await startWorkerProcess(served, { launcher, workspaceRoot: place.root, ...options });
    workers.push(worker);
    return worker;
  };
  const open = async () => {
    const session = await SessionDriver.open(server, { tools: [toolset()] });
    sessions.push(session);
    return session;
  };
  const file = (session: SessionDriver, name: string) => path.join(place.root, session.id, name);
  const begun = (session: SessionDriver, name: string) =>
    vi.waitFor(() => expect(existsSync(file(session, name))).toBe(true), soon);
  const results = async (session: SessionDriver) => (await session.list()).filter(isType("user.tool_result"));
  const turnEnds = (session: SessionDriver, count: number) =>
    vi.waitFor(async () => expect((await session.list()).filter(isTurnEnd)).toHaveLength(count), {
      timeout: PATIENCE,
      interval: 200,
    });
  /** As if a minute had passed since the last heartbeat. */
  const expireLeases = () =>
    server.database.pool.query(
      "update work_items set lease_expires_at = now() - interval '1 s' where lease_expires_at is not null",
    );

  test("F03 F04 kill -9 in the middle of a command: it is not run again, and its key was the published one", {
    timeout: PATIENCE,
  }, async () => {
    const first = await start();
    const session = await open();
    const mark = `mango-killed-${session.id}`;
    const effect = "echo $MANGO_IDEMPOTENCY_KEY >> effects";
    await session.send(message(`run \`${effect}; (exec -a ${mark} sleep 300)\``));
    await begun(session, "effects");
    const use = await session.until(isType("agent.tool_use"));
    await first.kill();
    // A sandbox dies with its worker; without one the command runs on, beside whatever comes next.
    if (launcher === "bwrap") await vi.waitFor(async () => expect(await processesOf(mark)).toEqual([]), soon);

    await expireLeases();
    await start();
    await turnEnds(session, 1);
    const [unknown, ...more] = await results(session);
    expect(unknown).toMatchObject({ tool_use_id: use.id, is_error: true });
    expect(textOf(unknown)).toMatch(/unknown/);
    expect(more).toEqual([]);
    const key = (use as unknown as { readonly idempotency_key: string }).idempotency_key;
    expect(key.length).toBeGreaterThan(8);
    expect(await readFile(file(session, "effects"), "utf8")).toBe(`${key}\n`);

    await session.send(message("run `wc -l < effects`"));
    await turnEnds(session, 2);
    expect(textOf((await results(session)).at(-1))).toBe("1");
    for (const { pid } of await processesOf(mark)) process.kill(pid, "SIGKILL");
  });

  test("a restart of the server during a command: the result of the one run is delivered", {
    timeout: PATIENCE,
  }, async () => {
    await start();
    const session = await open();
    await session.send(message("run `echo x >> effects; sleep 3; wc -l < effects`"));
    await begun(session, "effects");
    await server.stopServer();
    server = await startTestServer({ model: model(), database: server.database });
    proxy.plugInto(server.url);
    const resumed = await SessionDriver.resume(server, session.id);
    sessions.push(resumed);
    await turnEnds(resumed, 1);
    const [result, ...more] = await results(resumed);
    expect(result).toMatchObject({ is_error: false });
    expect(textOf(result)).toBe("1");
    expect(more).toEqual([]);
  });

  test.each(FULL ? [5_000, 75_000] : [5_000])(
    "a network that swallows everything for %i ms: one run, one result",
    {
      timeout: 2 * PATIENCE,
    },
    async (cutMs) => {
      await start();
      const session = await open();
      await session.send(message("run `echo x >> effects; sleep 2; touch over`"));
      await begun(session, "effects");
      proxy.cut();
      await begun(session, "over");
      await new Promise((resolve) => setTimeout(resolve, cutMs));
      // A lease that has run out is the server's to end: then the one result is its own.
      if (cutMs < 60_000) expect(await results(session)).toEqual([]);
      proxy.mend();
      await turnEnds(session, 1);
      expect(await results(session)).toHaveLength(1);
      expect(await readFile(file(session, "effects"), "utf8")).toBe("x\n");

      await session.send(message("run `wc -l < effects`"));
      await turnEnds(session, 2);
      expect(textOf((await results(session)).at(-1))).toBe("1");
    },
  );

  test("a clock that is a day ahead and runs backwards: heartbeats, idle times and results are as ever", {
    timeout: PATIENCE,
  }, async () => {
    const worker = await start({ node: ["--import", SKEWED_CLOCK], flags: ["--max-idle", "500ms"] });
    const session = await open();
    await session.send(message("run `sleep 1; echo done`"));
    await turnEnds(session, 1);
    expect(textOf((await results(session)).at(-1))).toBe("done");
    await vi.waitFor(() => expect(worker.log()).toContain('"end":"idle"'), soon);
    await session.send(message("run `echo again`"));
    await turnEnds(session, 2);
    expect(textOf((await results(session)).at(-1))).toBe("again");
    // The clock was indeed wrong: by more than half a day.
    const logged = Date.parse((JSON.parse(worker.log().split("\n")[0] ?? "{}") as { time: string }).time);
    expect(logged - Date.now()).toBeGreaterThan(43_200_000);
  });

  test("two workers on one environment: every call of every session runs once, on either", {
    timeout: PATIENCE,
  }, async () => {
    const pair = await Promise.all([
      start({ flags: ["--concurrency", "3"] }),
      start({ flags: ["--concurrency", "3"] }),
    ]);
    const six = await Promise.all(Array.from({ length: 6 }, open));
    await Promise.all(six.map((session) => session.send(message("run `echo x >> effects; cat effects`"))));
    for (const session of six) {
      await turnEnds(session, 1);
      expect((await results(session)).map(textOf)).toEqual(["x"]);
    }
    const claimed = pair.map(
      (worker) =>
        worker
          .log()
          .split("\n")
          .filter((line) => line.includes('"claimed work"')).length,
    );
    expect(claimed.reduce((sum, count) => sum + count)).toBeGreaterThanOrEqual(6);
    // Neither can hold all of them.
    expect(Math.min(...claimed)).toBeGreaterThan(0);
  });

  test("20 sessions at once on one worker", { timeout: PATIENCE }, async () => {
    await start();
    const twenty = await Promise.all(Array.from({ length: 20 }, open));
    const wait = "touch begun; while [ ! -e go ]; do sleep 0.1; done; echo went";
    await Promise.all(twenty.map((session) => session.send(message(`run \`${wait}\``))));
    // All of them run before any may end.
    for (const session of twenty) await begun(session, "begun");
    for (const session of twenty) await writeFile(file(session, "go"), "");
    for (const session of twenty) {
      await turnEnds(session, 1);
      expect((await results(session)).map(textOf)).toEqual(["went"]);
    }
  });
});
