import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { EventFeed } from "../e2e/event-feed.ts";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { customResult, customTool, isTurnEnd, isType, message, SessionDriver } from "../e2e/session-driver.ts";

let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

interface Row {
  readonly seq: string;
  readonly id: string;
  readonly thread_id: string;
  readonly type: string;
  readonly payload: string;
  readonly received_at: Date;
  readonly processed_at: Date | null;
  readonly previous_hash: Buffer;
  readonly hash: Buffer;
}

const query = (sql: string, ...values: unknown[]) => scripted.server.database.pool.query<Row>(sql, values);
const rowsOf = async () => (await query("select * from events where session_id = $1 order by seq", session.id)).rows;
const countTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);

async function oneTurn(): Promise<void> {
  await scripted.script(calls(toolUse("toolu_1", "lookup", { q: "ü" })), says("Done."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  await session.send(customResult(await session.until(isType("agent.custom_tool_use")), "found"));
  await session.until(isTurnEnd);
}

/** From the documented formula, not from the product's code. */
function chain(sessionId: string, rows: readonly Row[]): string[] {
  const hashes: string[] = [];
  let previous = createHash("sha256").update(sessionId).digest();
  for (const row of rows) {
    const { id, thread_id, type, payload, received_at } = row;
    const content = [sessionId, Number(row.seq), id, thread_id, type, payload, received_at.toISOString()];
    previous = createHash("sha256").update(previous).update(JSON.stringify(content)).digest();
    hashes.push(previous.toString("hex"));
  }
  return hashes;
}

const changes = [
  ["another payload", "update events set payload = '{}' where session_id = $1"],
  ["another type", "update events set type = 'user.message' where session_id = $1"],
  ["another order", "update events set seq = seq + 1000 where session_id = $1"],
  ["another hash", "update events set hash = previous_hash where session_id = $1"],
  ["a second stamp", "update events set processed_at = now() where session_id = $1"],
  ["no stamp", "update events set processed_at = null where session_id = $1"],
  ["a deletion", "delete from events where session_id = $1"],
] as const;
test.each(changes)("the database refuses %s of stored events", async (_case, sql) => {
  await oneTurn();
  const before = await rowsOf();
  await expect(query(sql, session.id)).rejects.toThrow(/refused|append-only/);
  expect(await rowsOf()).toEqual(before);
});

test("the database refuses to empty the ledger or the transcript", async () => {
  await oneTurn();
  await expect(query("truncate events cascade")).rejects.toThrow(/append-only/);
  await expect(query("truncate transcript_entries cascade")).rejects.toThrow(/append-only/);
});

test.each([
  ["a change", "update transcript_entries set content = '[]' where session_id = $1"],
  ["a touch", "update transcript_entries set id = id where session_id = $1"],
  ["a deletion", "delete from transcript_entries where session_id = $1"],
])("the database refuses %s of the transcript", async (_case, sql) => {
  await oneTurn();
  const transcript = () => query("select * from transcript_entries where session_id = $1 order by id", session.id);
  const before = (await transcript()).rows;
  expect(before.length).toBeGreaterThan(0);
  await expect(query(sql, session.id)).rejects.toThrow(/append-only/);
  expect((await transcript()).rows).toEqual(before);
});

test("the hash chain can be verified from the rows alone", async () => {
  await oneTurn();
  const rows = await rowsOf();
  const expected = chain(session.id, rows);
  const genesis = createHash("sha256").update(session.id).digest("hex");
  expect(rows.map(({ hash }) => hash.toString("hex"))).toEqual(expected);
  expect(rows.map(({ previous_hash }) => previous_hash.toString("hex"))).toEqual([genesis, ...expected.slice(0, -1)]);
});

test("a burst of concurrent posts leaves no gap, no repeat and an unbroken chain", async () => {
  await scripted.script();
  session = await SessionDriver.open(scripted.server);
  const answers = await Promise.all(countTo(40).map((n) => session.post(message(`message ${n}`))));
  await session.until(isTurnEnd);
  expect(answers.map(({ status }) => status)).toEqual(countTo(40).map(() => 200));
  const rows = await rowsOf();
  expect(rows.map(({ seq }) => Number(seq))).toEqual(countTo(rows.length));
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
  expect(rows.map(({ hash }) => hash.toString("hex"))).toEqual(chain(session.id, rows));
  const posted = answers.flatMap(({ data }) => data.map(({ id }) => id));
  expect(
    rows
      .filter(({ type }) => type === "user.message")
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(posted.toSorted());
  expect(rows.filter(({ type }) => type === "agent.message")).toHaveLength(40);
  expect(rows.filter(({ processed_at }) => processed_at === null)).toEqual([]);
});

test("processed_at never goes back in the order of the list", async () => {
  await scripted.script();
  session = await SessionDriver.open(scripted.server);
  await Promise.all(countTo(8).map((n) => session.post(message(`message ${n}`))));
  await session.until(isTurnEnd);
  const stamps = (await session.list()).map(({ processed_at }) => processed_at ?? "9999");
  expect(stamps).toEqual(stamps.toSorted());
});

const TEXT = "NUL:\u0000 literal:\\u0000 doubled:\\\\u0000 lone:\ud800 low:\udc00 pair:😀 bom:\ufeff sep:\u2028 end";
test("F30: NUL, a literal \\u0000 and lone surrogates survive in list, stream and provider request", async () => {
  const provider = await scripted.script(says("Received."));
  session = await SessionDriver.open(scripted.server);
  const answer = await session.post(message(TEXT));
  const streamed = await session.until(isType("user.message"));
  await session.until(isTurnEnd);
  const listed = (await session.list()).find(isType("user.message"));
  const replay = await EventFeed.open(scripted.server, session.id, { lastEventId: "0" });
  const replayed = await replay.until(isType("user.message"));
  replay.close();
  const content = [{ type: "text", text: TEXT }];
  expect(answer.status).toBe(200);
  for (const event of [answer.data[0], streamed, listed, replayed]) expect(event?.content).toEqual(content);
  const request = JSON.parse(provider.requests[0]?.body ?? "") as { messages: { content: { text: string }[] }[] };
  expect(request.messages[0]?.content[0]?.text).toBe(TEXT);
});

test("F30: the same in a tool's result and a tool's input", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "lookup", { q: TEXT })), says("Received."));
  session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  const use = await session.until(isType("agent.custom_tool_use"));
  await session.send(customResult(use, TEXT));
  const result = await session.until(isType("user.custom_tool_result"));
  await session.until(isTurnEnd);
  expect(use.input).toEqual({ q: TEXT });
  expect(result.content).toEqual([{ type: "text", text: TEXT }]);
  const { messages } = JSON.parse(provider.requests[1]?.body ?? "") as {
    messages: { content: { type: string; content?: string | { text: string }[]; input?: unknown }[] }[];
  };
  expect(messages[1]?.content.find(({ type }) => type === "tool_use")?.input).toEqual({ q: TEXT });
  const received = messages[2]?.content[0]?.content;
  expect(typeof received === "string" ? received : received?.[0]?.text).toBe(TEXT);
});
