import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect } from "vitest";
import { type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import { HandWorker, type HeldWork, NO_HEARTBEAT } from "../faults/hand-worker.ts";
import { removeFolder } from "../remove-folder.ts";
import { API_KEY } from "../server.ts";
import { type Api, apiOf, type Body, expectError, TIME } from "./api.ts";
import { VERSIONS } from "./sdk-clients.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
let worker: HandWorker;
beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
  worker = new HandWorker(scripted);
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
});

const start = (body?: object) =>
  api.write(`/v1/environments/${scripted.server.environmentId}/healthcheck`, body ?? { wait_ms: 20_000 });
const call = (token: string, { id }: HeldWork, what: string, body: object = {}) =>
  worker.ask(token, worker.work(`${id}/${what}`), body);
const POLL = "?block_ms=20000";

verifies("healthchecks:healthy", async () => {
  const asked = start();
  const item = await worker.acknowledged(POLL);
  const beat = await call(item.token, item, NO_HEARTBEAT);
  const last = (beat.body as unknown as { last_heartbeat: string }).last_heartbeat;
  await call(item.token, item, `heartbeat?expected_last_heartbeat=${encodeURIComponent(last)}`);
  await call(item.token, item, "stop", { force: true });
  const report = await asked;
  expect(report).toEqual({
    type: "healthcheck",
    id: expect.stringMatching(/^hchk_/),
    environment_id: scripted.server.environmentId,
    work_id: item.id,
    status: "healthy",
    launched: true,
    reached_api: true,
    held_lease: true,
    message: "A worker launched, reached the API and held a lease.",
    workers_polling: null,
    created_at: expect.stringMatching(TIME),
    ended_at: expect.stringMatching(TIME),
  });
  const { data } = await api.read(worker.work(item.id));
  expect(data).toEqual({ type: "healthcheck", id: report.id });
});

verifies("healthchecks:skipped", "with the token, as the official workers do", async () => {
  const asked = start();
  const item = await worker.acknowledged(POLL);
  await call(item.token, item, "stop", { force: true });
  expect(await asked).toMatchObject({ status: "skipped", launched: true, reached_api: true, held_lease: false });
});
verifies(
  "healthchecks:skipped",
  "with the environment key, as the official pollers do; it does not come back",
  async () => {
    const asked = start();
    const item = await worker.acknowledged(POLL);
    expect((await worker.handBack(item.id)).body.state).toBe("stopped");
    expect(await asked).toMatchObject({ status: "skipped", held_lease: false });
    expect(await worker.poll()).toBeNull();
  },
);

verifies("healthchecks:failed", async () => {
  const asked = start();
  const item = await worker.active(POLL);
  await call(item.token, item, "fail", { message: "bwrap is not installed" });
  expect(await asked).toMatchObject({
    status: "failed",
    held_lease: true,
    message: "The worker reports: bwrap is not installed",
  });
});

verifies("healthchecks:lost", async () => {
  const asked = start();
  await worker.active(POLL);
  await worker.expireLeases();
  expect(await worker.poll()).toBeNull();
  expect(await asked).toMatchObject({
    status: "failed",
    held_lease: true,
    message: expect.stringMatching(/went silent/),
  });
});

verifies("healthchecks:timed-out", "nobody polls", async () => {
  const report = await start({ wait_ms: 1000 });
  expect(report).toMatchObject({
    status: "timed_out",
    launched: false,
    reached_api: false,
    held_lease: false,
    message: expect.stringMatching(/No worker took the check up/),
  });
  expect(await worker.poll()).toBeNull();
  expect((await api.read(worker.work(String(report["work_id"]))))["state"]).toBe("stopped");
});
verifies("healthchecks:timed-out", "a launcher whose process never comes", async () => {
  const asked = start({ wait_ms: 2000 });
  const item = await worker.acknowledged(POLL);
  expect(await asked).toMatchObject({
    status: "timed_out",
    launched: true,
    reached_api: false,
    message: expect.stringMatching(/has not reached the API/),
  });
  expect((await call(item.token, item, NO_HEARTBEAT)).status).toBe(401);
});

verifies("healthchecks:token", async () => {
  const { session } = await worker.waiting();
  await worker.claimed();
  const asked = start();
  const item = await worker.active(POLL);
  for (const target of [`/v1/sessions/${session.id}`, `/v1/sessions/${session.id}/events`, "/v1/sessions/null"]) {
    expect((await worker.ask(item.token, target)).status).toBe(404);
  }
  await call(item.token, item, "stop", { force: true });
  expect(await asked).toMatchObject({ status: "healthy" });
  session.close();
});

verifies("healthchecks:invalid", async () => {
  const own = `/v1/environments/${scripted.server.environmentId}/healthcheck`;
  for (const wait_ms of [999, 20_001, 1000.5, "soon", null]) {
    expectError(await api.post(own, { wait_ms }), 400, "wait_ms");
  }
  expectError(await api.post(own, { timeout: 1 }), 400, "timeout");
  expectError(await api.post("/v1/environments/env_nothing/healthcheck"), 404, "env_nothing");
  const { rowCount } = await scripted.server.database.pool.query("select 1 from work_items");
  expect(rowCount).toBe(0);
});

describe.each(VERSIONS)("SDK %s", (_version, Client) => {
  verifies("healthchecks:sdk", async () => {
    const workdir = await mkdtemp(path.join(tmpdir(), "mango-sdk-"));
    const stop = new AbortController();
    const client = new Client({ baseURL: scripted.server.url, apiKey: API_KEY, logLevel: "off" });
    const { environmentId, environmentKey } = scripted.server;
    const running = client.beta.environments.work.worker({ environmentId, environmentKey, workdir }).run(stop.signal);
    try {
      const reports: Body[] = [await start(), await start()];
      for (const report of reports) {
        expect(report).toMatchObject({
          status: expect.toBeOneOf(["skipped", "healthy"]),
          launched: true,
          reached_api: true,
        });
      }
    } finally {
      stop.abort();
      await running;
      await removeFolder(workdir);
    }
  });
});
