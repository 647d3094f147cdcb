/** A worker that went silent: what it may have begun is never begun again, and the turn goes on (F03, F04). */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { endLostClaims } from "../../shared/work/lost-claims.ts";
import { tendWork } from "../../shared/work/upkeep.ts";
import { type Event, EventFeed } from "../e2e/event-feed.ts";
import {
  calls,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  toolUse,
} from "../e2e/scripted-model.ts";
import {
  ask,
  confirmation,
  isIdle,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolResult,
  toolset,
} from "../e2e/session-driver.ts";
import { API_KEY } from "../server.ts";
import { HandWorker, NO_HEARTBEAT } from "./hand-worker.ts";

const UNKNOWN = "The worker lost its lease while this call was open; whether it took effect is unknown.";

let scripted: ScriptedServer;
let worker: HandWorker;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
  worker = new HandWorker(scripted);
});
afterAll(() => scripted.close());
beforeEach(async () => {
  await scripted.server.database.pool.query("delete from work_items");
});
afterEach(() => session.close());

async function waiting(...options: Parameters<HandWorker["waiting"]>): Promise<readonly Event[]> {
  const opened = await worker.waiting(...options);
  ({ session } = opened);
  return opened.uses;
}
const results = async () => (await session.list()).filter(isType("user.tool_result"));
const post = (key: string, ...events: readonly object[]) =>
  worker.ask(key, `/v1/sessions/${session.id}/events`, { events });

test("the next poll closes the call before anybody can claim it, and the model hears that the effect is unknown", async () => {
  const [use] = await waiting();
  const first = await worker.active();
  await worker.expireLeases();

  const second = await worker.active();

  expect(second.id).toBe(first.id);
  const history = (await worker.ask(second.token, `/v1/sessions/${session.id}/events`)).body.data;
  expect(history.filter(isType("user.tool_result"))).toMatchObject([{ tool_use_id: use?.id, is_error: true }]);
  await session.until(isTurnEnd);
  expect((await results()).map(textOf)).toEqual([UNKNOWN]);
  expect(await session.status()).toBe("idle");
});

test("where nobody polls, the schedule closes it", async () => {
  await waiting();
  await worker.active();
  await worker.expireLeases();
  await tendWork(scripted.server.product);
  await session.until(isTurnEnd);
  expect((await results()).map(textOf)).toEqual([UNKNOWN]);
  expect((await worker.items()).map(({ state, held }) => [state, held])).toEqual([["queued", false]]);
});

test("any number that judge one lost lease at once close it once", async () => {
  await waiting();
  await worker.active();
  await worker.expireLeases();
  const judged = await Promise.all([1, 2, 3, 4].map(() => endLostClaims(scripted.server.product)));
  expect(judged.toSorted()).toEqual([0, 0, 0, 1]);
  await session.until(isTurnEnd);
  expect(await results()).toHaveLength(1);
});

test("a lease that was extended before the judge had the lock is left alone", async () => {
  await waiting();
  const first = await worker.active();
  const { pool } = scripted.server.database;
  await worker.expireLeases();
  const client = await pool.connect();
  await client.query("begin");
  await client.query("select 1 from sessions where id = $1 for update", [session.id]);
  const judging = endLostClaims(scripted.server.product);
  await untilWaiting(1);
  await client.query("update work_items set lease_expires_at = now() + interval '1 min' where id = $1", [first.id]);
  await client.query("commit");
  client.release();
  expect(await judging).toBe(0);
  expect(await results()).toEqual([]);
  expect((await worker.ask(first.token, `/v1/sessions/${session.id}`)).status).toBe(200);
});

/** Until so many statements of this database wait for a lock. */
async function untilWaiting(count: number): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    const { rows } = await scripted.server.database.pool.query<{ waiting: number }>(
      "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    if ((rows[0]?.waiting ?? 0) >= count) return;
  }
  throw new Error("Nobody waits for a lock.");
}

test("a fenced owner writes nothing more: its token is dead, and a result that was on its way is refused", async () => {
  const [use] = await waiting();
  const first = await worker.active();
  const { pool } = scripted.server.database;
  // The result has passed the door and waits for the session, which the judge of the lease has.
  const client = await pool.connect();
  await client.query("begin");
  await client.query("select 1 from sessions where id = $1 for update", [session.id]);
  const late = post(first.token, toolResult(use as Event, "late"));
  await untilWaiting(1);
  await client.query(
    "update work_items set state = 'queued', token_digest = null, lease_expires_at = null where id = $1",
    [first.id],
  );
  await client.query("commit");
  client.release();
  expect((await late).status).toBe(409);
  expect(await results()).toEqual([]);
  expect((await post(first.token, toolResult(use as Event, "later"))).status).toBe(401);
  expect((await worker.ask(first.token, worker.work(`${first.id}/${NO_HEARTBEAT}`), {})).status).toBe(401);
});

test("a result that was accepted stays; sent again it is the stored event, and another is a conflict", async () => {
  const [use] = await waiting();
  const first = await worker.active();
  const accepted = await post(first.token, toolResult(use as Event, "ls"));
  const again = await post(first.token, toolResult(use as Event, "ls"));
  const other = await post(first.token, toolResult(use as Event, "something else"));
  expect([accepted.status, again.status, other.status]).toEqual([200, 200, 409]);
  expect(again.body.data).toEqual(accepted.body.data);
  await session.until(isTurnEnd);
  await worker.expireLeases();
  await worker.poll();
  expect((await results()).map(textOf)).toEqual(["ls"]);
});

test("a call that was closed takes no result, not even from its next owner", async () => {
  const [use] = await waiting();
  await worker.active();
  await worker.expireLeases();
  const second = await worker.active();
  const answer = await post(second.token, toolResult(use as Event, "I have it after all"));
  expect(answer.status).toBe(409);
  await session.until(isTurnEnd);
});

test("what the lost owner could not begin stays open: a call that waited for a person, and one confirmed since", async () => {
  const uses = await waiting({
    uses: [
      ["toolu_1", "bash", { command: "ls" }],
      ["toolu_2", "write", { file_path: "a", content: "a" }],
      ["toolu_3", "write", { file_path: "b", content: "b" }],
    ],
    tools: [toolset(ask("write"))],
  });
  const [bash, confirmed, asked] = uses as [Event, Event, Event];
  await worker.active();
  // The calls were published two minutes ago and the lease ran out one minute ago; the person answers now.
  await scripted.server.database.pool.query(
    "update pending_actions set created_at = created_at - interval '2 min' where session_id = $1",
    [session.id],
  );
  await worker.expireLeases(60);
  await session.send(confirmation(confirmed, "allow"));

  const second = await worker.active();

  expect((await results()).map(({ tool_use_id }) => tool_use_id)).toEqual([bash.id]);
  const idle = (await session.list()).findLast(isIdle("requires_action"));
  expect(idle?.stop_reason?.event_ids).toEqual([confirmed.id, asked.id]);
  expect((await post(second.token, toolResult(confirmed, "wrote a"))).status).toBe(200);
  await session.send(confirmation(asked, "deny"));
  await session.until(isTurnEnd);
});

test("a call that was published after the owner was fenced is not its own: the next owner runs it", async () => {
  const [use] = await waiting();
  await worker.active();
  await worker.expireLeases(60);
  const second = await worker.active();
  expect(await results()).toEqual([]);
  expect((await post(second.token, toolResult(use as Event, "ls"))).status).toBe(200);
  await session.until(isTurnEnd);
});

test("an owner that never beat and never looked has begun nothing: the call is somebody else's", async () => {
  const [use] = await waiting();
  await worker.acknowledged();
  await worker.expireLeases();
  const second = await worker.active();
  expect(await results()).toEqual([]);
  expect((await post(second.token, toolResult(use as Event, "ls"))).status).toBe(200);
  await session.until(isTurnEnd);
});

test("an owner that never beat but read the events may have begun what it read", async () => {
  await waiting();
  const first = await worker.acknowledged();
  await worker.ask(first.token, `/v1/sessions/${session.id}/events`);
  await worker.expireLeases();
  await worker.poll();
  expect((await results()).map(textOf)).toEqual([UNKNOWN]);
  await session.until(isTurnEnd);
});

test("a stream opened with a claim's token ends when the claim does", async () => {
  await waiting();
  const first = await worker.active();
  const feed = await EventFeed.open(
    { request: (path, init) => scripted.server.request(path, { ...init, key: first.token }) },
    session.id,
  );
  await worker.expireLeases();
  await expect(feed.frame(() => false)).rejects.toThrow("The stream ended");
});

test("a stream of a claim that was ended shows no call that comes after it: its worker would begin what is another's", async () => {
  await scripted.script(
    calls(toolUse("toolu_1", "bash", { command: "ls" })),
    calls(toolUse("toolu_2", "bash", { command: "pwd" })),
    says("Done."),
  );
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  await session.send(message("go"));
  await session.untilAsked();
  const first = await worker.active();
  const feed = await EventFeed.open(
    { request: (path, init) => scripted.server.request(path, { ...init, key: first.token }) },
    session.id,
  );

  await worker.stop(API_KEY, first.id, { force: true });

  await session.until((event) => event.type === "agent.tool_use" && JSON.stringify(event).includes("pwd"));
  await expect(feed.frame(() => false)).rejects.toThrow("The stream ended");
  expect(feed.frames.filter(({ data }) => data?.includes("pwd"))).toEqual([]);
});

test("events that were read for a claim which has ended meanwhile are not shown to its worker", async () => {
  const [use] = await waiting();
  const first = await worker.active();
  const { pool } = scripted.server.database;
  const blocker = await pool.connect();
  const blocked = "select 1 from pg_locks where not granted and relation = 'events'::regclass";
  try {
    await blocker.query("begin; lock table events in access exclusive mode");
    const listed = worker.ask(first.token, `/v1/sessions/${session.id}/events`);
    await expect.poll(async () => (await pool.query(blocked)).rowCount).toBe(1);
    await pool.query("update work_items set state = 'stopped', token_digest = null where id = $1", [first.id]);
    await blocker.query("commit");
    const { status, body } = await listed;
    expect([status, JSON.stringify(body).includes(String(use?.id))]).toEqual([401, false]);
  } finally {
    await blocker.query("rollback");
    blocker.release();
  }
});

test("the session is as usable as before", async () => {
  await waiting();
  await worker.active();
  await worker.expireLeases();
  await worker.poll();
  await session.until(isTurnEnd);
  const provider = await scripted.script(says("Still here."));
  await session.send({ type: "user.message", content: [{ type: "text", text: "and now?" }] });
  await session.until((event) => event.type === "agent.message" && textOf(event) === "Still here.");
  expect(resultsOf(provider, 0).map(resultText)).toEqual([UNKNOWN]);
});
