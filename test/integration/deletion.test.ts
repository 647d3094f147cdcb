import { afterAll, beforeAll, expect, test } from "vitest";
import { purgeDeleted } from "../../shared/sessions/purge.ts";
import { ask, isTurnEnd, message, SessionDriver, toolset } from "../e2e/session-driver.ts";
import { startTestServer, type TestServer } from "../server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const AT_ONCE = { contentAfterSeconds: 0, journalAfterDays: 0 };
const NEVER = 10_000;

async function rowsOf(sessionId: string): Promise<Record<string, number>> {
  const tables = [
    "events",
    "transcript_entries",
    "session_runtimes",
    "work_items",
    "pending_actions",
    "outbox",
    "turns",
    "provider_calls",
    "tool_steps",
    "context_snapshots",
  ];
  const counts: Record<string, number> = {};
  for (const table of tables) {
    const { rows } = await server.database.pool.query(`select count(*) as count from ${table} where session_id = $1`, [
      sessionId,
    ]);
    counts[table] = rows[0].count;
  }
  return counts;
}

test("a deleted session loses what was said at once and what was done after the audit window; the rest stays", async () => {
  const kept = await SessionDriver.open(server);
  await kept.send(message("stay"));
  await kept.until(isTurnEnd);
  kept.close();
  const session = await SessionDriver.open(server, { tools: [toolset(ask("bash"))] });
  await session.send(message("run `ls`"));
  await session.untilAsked();

  const deleted = await server.request(`/v1/sessions/${session.id}`, { method: "DELETE" });
  expect(await deleted.json()).toEqual({ id: session.id, type: "session_deleted" });
  expect((await session.until((event) => event.type === "session.deleted")).type).toBe("session.deleted");
  session.close();
  expect((await server.request(`/v1/sessions/${session.id}`)).status).toBe(404);
  expect((await session.post(message("hello?"))).status).toBe(404);

  const { pool } = server.database;
  // As an executor of the server's own would have left it.
  await pool.query("update tool_steps set provenance = $2 where session_id = $1", [
    session.id,
    '{"final_url":"https://…"}',
  ]);
  expect(await purgeDeleted(pool, { contentAfterSeconds: NEVER, journalAfterDays: NEVER })).toEqual({
    content: 0,
    gone: 0,
  });
  expect(await purgeDeleted(pool, { contentAfterSeconds: 0, journalAfterDays: NEVER })).toEqual({
    content: 1,
    gone: 0,
  });
  expect(await rowsOf(session.id)).toEqual({
    events: 0,
    transcript_entries: 0,
    session_runtimes: 0,
    work_items: 0,
    pending_actions: 0,
    outbox: 0,
    turns: 1,
    provider_calls: 1,
    tool_steps: 1,
    context_snapshots: 1,
  });
  const { rows: steps } = await pool.query("select input, result, provenance from tool_steps where session_id = $1", [
    session.id,
  ]);
  expect(steps).toEqual([{ input: "{}", result: null, provenance: null }]);

  expect(await purgeDeleted(pool, AT_ONCE)).toEqual({ content: 0, gone: 1 });
  expect(Object.values(await rowsOf(session.id))).toEqual(Array.from({ length: 10 }, () => 0));
  const { rows: tombstones } = await pool.query("select session_id, workspace_id from session_tombstones");
  expect(tombstones).toEqual([{ session_id: session.id, workspace_id: "wrkspc_local" }]);
  expect((await server.request(`/v1/sessions/${kept.id}`)).status).toBe(200);
  expect((await kept.list()).length).toBeGreaterThan(5);
  expect((await server.request(`/v1/environments/${server.environmentId}`)).status).toBe(200);
});

test("answers that are kept for repeats go with what was said, and a repeat makes nothing anew", async () => {
  const { pool } = server.database;
  const like = await SessionDriver.open(server);
  like.close();
  const { agent } = (await (await server.request(`/v1/sessions/${like.id}`)).json()) as { agent: { id: string } };
  const post = (path: string, key: string, body: object) =>
    server.request(path, { method: "POST", headers: { "idempotency-key": key }, json: body });
  const create = () =>
    post("/v1/sessions", "made", { agent: agent.id, environment_id: server.environmentId, title: "The plan" });
  const { id } = (await (await create()).json()) as { id: string };
  const send = () => post(`/v1/sessions/${id}/events`, "said", { events: [message("the secret word")] });
  const first = await send();
  expect(first.status).toBe(200);
  expect(await (await send()).json()).toEqual(await first.json());
  await expect
    .poll(async () => (await server.request(`/v1/sessions/${id}`, { method: "DELETE" })).status, { timeout: 15_000 })
    .toBe(200);

  await purgeDeleted(pool, { contentAfterSeconds: 0, journalAfterDays: NEVER });

  const { rows } = await pool.query("select key, response from idempotency_keys order by key");
  expect(rows).toEqual([
    { key: "made", response: null },
    { key: "said", response: null },
  ]);
  expect([(await create()).status, (await send()).status]).toEqual([404, 404]);
});

test("a running session cannot be deleted, and nothing of a living one can be removed", async () => {
  const session = await SessionDriver.open(server);
  await session.send(message("stay"));
  await session.until(isTurnEnd);
  session.close();
  const { pool } = server.database;
  for (const table of ["events", "transcript_entries", "session_runtimes", "context_snapshots"]) {
    await expect(pool.query(`delete from ${table} where session_id = $1`, [session.id])).rejects.toThrow("append-only");
  }
  await pool.query("update sessions set status = 'running' where id = $1", [session.id]);
  const refused = await server.request(`/v1/sessions/${session.id}`, { method: "DELETE" });
  expect(refused.status).toBe(409);
  expect(refused.headers.get("x-should-retry")).toBe("false");
});
