import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Event, EventFeed } from "../e2e/event-feed.ts";
import {
  calls,
  held,
  reply,
  type ScriptedServer,
  says,
  startScriptedServer,
  textBlock,
  toolUse,
} from "../e2e/scripted-model.ts";
import {
  createSession,
  customResult,
  customTool,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
} from "../e2e/session-driver.ts";
import { type FakeModel, startFakeModel } from "../fake-model/server.ts";
import { API_KEY } from "../server.ts";

// Executions, connections and whole processes may go at any time; the journal is the truth.
let scripted: ScriptedServer;
let session: SessionDriver | undefined;
let provider: FakeModel | undefined;
/** A connection of the test's own, which it does not cut. */
let admin: pg.Client;
beforeEach(async () => {
  scripted = await startScriptedServer();
  admin = new pg.Client({ connectionString: scripted.server.database.connectionString });
  await admin.connect();
});
afterEach(async () => {
  session?.close();
  session = undefined;
  await admin.end();
  await scripted.close();
  await provider?.close();
  provider = undefined;
});

const query = (sql: string, ...values: unknown[]) => admin.query(sql, values);
const executions = async () =>
  (
    await query(
      "select right(name, length(name) - strpos(name, '-')) as segment, status from stepfunctions.executions order by start_date, name",
    )
  ).rows;
const turn = async () =>
  (await query("select state, segment, task_token is not null as waits from turns order by created_at desc limit 1"))
    .rows[0];
const messagesIn = (events: readonly Event[]) => events.filter(isType("agent.message")).map(textOf);

/** A turn that waits for the application, with its execution parked. */
async function parked(): Promise<readonly [SessionDriver, ReturnType<typeof customResult>]> {
  await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "x" })), says("Found."));
  const opened = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  session = opened;
  await opened.send(message("go"));
  const [use] = await opened.untilAsked();
  if (use === undefined) throw new Error("The idle named nothing.");
  await expect.poll(turn, { timeout: 15_000 }).toEqual({ state: "parked", segment: 1, waits: true });
  return [opened, customResult(use, "found")];
}

test("an execution that vanished while it was parked: the answer starts the next segment, and the turn ends once", async () => {
  const [driver, result] = await parked();
  await query("delete from stepfunctions.executions");

  await driver.send(result);
  await driver.until(isTurnEnd);

  expect(await turn()).toEqual({ state: "completed", segment: 2, waits: false });
  expect((await executions()).map(({ segment }) => segment)).toEqual(["2"]);
  const events = await driver.list();
  expect(messagesIn(events)).toEqual(["Found."]);
  expect(events.filter(isTurnEnd)).toHaveLength(1);
  expect((await query("select id from outbox")).rows).toEqual([]);
});

test("an execution that was aborted while it was parked: the answer or the reconciler starts the next segment", async () => {
  const [driver, result] = await parked();
  await query("update stepfunctions.executions set status = 'ABORTED', stop_date = now(), position = null");

  await driver.send(result);
  await driver.until(isTurnEnd);

  expect(await turn()).toEqual({ state: "completed", segment: 2, waits: false });
  expect(messagesIn(await driver.list())).toEqual(["Found."]);
});

test("a turn of more rounds than one execution's history holds is handed over, and ends once", async () => {
  const rounds = 120;
  provider = await startFakeModel({
    script: (_, n) => (n < rounds ? reply("pause_turn", textBlock(`part ${n}`)) : says("The end.")),
  });
  scripted.pointTo(provider.url);
  session = await SessionDriver.open(scripted.server);
  await session.send(message("a long one"));
  await session.until(isTurnEnd);

  const { state, segment } = await turn();
  expect(state).toBe("completed");
  expect(segment).toBeGreaterThan(1);
  expect(provider.count).toBe(rounds + 1);
  const events = await session.list();
  expect(messagesIn(events)).toEqual([...Array.from({ length: rounds }, (_, n) => `part ${n}`), "The end."]);
  const starts = events.filter(isType("span.model_request_start")).map(({ id }) => id);
  expect(events.filter(isType("span.model_request_end")).map((event) => event.model_request_start_id)).toEqual(starts);
  expect(events.filter(isType("session.status_running"))).toHaveLength(1);
  expect(events.filter(isType("session.status_idle"))).toHaveLength(1);
  await expect
    .poll(executions, { timeout: 15_000 })
    .toEqual(Array.from({ length: segment }, (_, index) => ({ segment: String(index + 1), status: "SUCCEEDED" })));
  // All parts are one answer of the model's, sent back whole with every further request.
  const last = JSON.parse(provider.requests.at(-1)?.body ?? "") as { messages: { role: string; content: unknown[] }[] };
  expect(last.messages.map(({ role, content }) => [role, content.length])).toEqual([
    ["user", 1],
    ["assistant", rounds],
  ]);
});

/** Cuts every connection of the server to its database, those of the state machine included. */
const cutAll = () =>
  query(
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
  );

/** The server answers again: its pools have found out. */
const answersAgain = () =>
  expect
    .poll(async () => (await scripted.server.request(`/v1/sessions/${session?.id}`)).status, { timeout: 15_000 })
    .toBe(200);

test("all connections are cut while the model is asked: the process lives, and its answer is stored once (F26)", async () => {
  const gate = Promise.withResolvers<void>();
  const model = await scripted.script(held(gate.promise, "Here I am."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello?"));
  await session.until(isType("span.model_request_start"));

  await cutAll();
  await answersAgain();
  gate.resolve();

  const again = await EventFeed.open(scripted.server, session.id, { lastEventId: "0" });
  await again.until(isTurnEnd);
  again.close();
  expect(messagesIn(await session.list())).toEqual(["Here I am."]);
  expect(model.count).toBe(1);
});

test("all connections are cut while a turn is parked: the answer still finds it", async () => {
  const [driver, result] = await parked();

  await cutAll();
  await answersAgain();
  await driver.send(result);

  const again = await EventFeed.open(scripted.server, driver.id, { lastEventId: "0" });
  await again.until(isTurnEnd);
  again.close();
  expect(messagesIn(await driver.list())).toEqual(["Found."]);
});

test("connections that are cut again and again under load lose no message and end no process", async () => {
  const sessions = 6;
  await scripted.script();
  const ids = await Promise.all(Array.from({ length: sessions }, () => createSession(scripted.server)));
  const accepted = new Map<string, number>(ids.map((id) => [id, 0]));
  for (let round = 0; round < 8; round += 1) {
    await Promise.all([
      ...ids.map(async (id) => {
        // Plain: a connection that is lost in the middle of a request may become any answer.
        const response = await fetch(`${scripted.server.url}/v1/sessions/${id}/events`, {
          method: "POST",
          headers: { "x-api-key": API_KEY, "content-type": "application/json" },
          body: JSON.stringify({ events: [message(`round ${round}`)] }),
        });
        await response.text();
        if (response.status === 200) accepted.set(id, (accepted.get(id) ?? 0) + 1);
      }),
      cutAll(),
    ]);
  }
  // The relay and the state machine's own retries bring every turn to its end.
  const active = async () =>
    (await query("select id from turns where state in ('running', 'parked', 'hibernated', 'backing_off')")).rows;
  await expect.poll(active, { timeout: 60_000, interval: 200 }).toEqual([]);

  for (const id of ids) {
    const { rows } = await query(
      "select type, processed_at is null as queued, payload from events where session_id = $1 order by seq",
      id,
    );
    expect(rows.filter(({ queued }) => queued)).toEqual([]);
    expect(rows.at(-1)?.type ?? "session.status_idle").toBe("session.status_idle");
    // One that was answered with an error may have been stored all the same; one that was accepted was.
    expect(rows.filter(({ type }) => type === "user.message").length).toBeGreaterThanOrEqual(accepted.get(id) ?? 0);
  }
}, 90_000);
