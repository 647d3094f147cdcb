/** What must hold of a session at rest, whatever happened before: each function returns what is wrong. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { answerTo, BASH_FILE, EDIT_FILE, type FaultProvider } from "./fault-provider.ts";

interface EventRow {
  readonly seq: number;
  readonly id: string;
  readonly thread_id: string;
  readonly type: string;
  readonly payload: string;
  readonly received_at: Date;
  readonly processed_at: Date | null;
  readonly previous_hash: Buffer;
  readonly hash: Buffer;
}

/** The ledger as it is, to be held against what it becomes. */
export async function readLedger(database: pg.Pool, sessionId: string): Promise<EventRow[]> {
  const { rows } = await database.query<EventRow>(
    `select seq, id, thread_id, type, payload, received_at, processed_at, previous_hash, hash
       from events where session_id = $1 order by seq`,
    [sessionId],
  );
  return rows;
}

/** Nothing of what was there has changed, but for stamps that were missing. */
export function provesAppendOnly(before: readonly EventRow[], after: readonly EventRow[]): string[] {
  const content = (row: EventRow | undefined) =>
    row && JSON.stringify([row.seq, row.id, row.type, row.payload, row.received_at, row.hash.toString("hex")]);
  return before.flatMap((row, index) => {
    const later = after[index];
    if (content(row) !== content(later)) return `event ${row.seq} (${row.type}) was changed`;
    const restamped = row.processed_at !== null && row.processed_at.getTime() !== later?.processed_at?.getTime();
    return restamped ? `event ${row.seq} (${row.type}) was stamped again` : [];
  });
}

/** Gapless from 1, each id once, each hash as docs/architecture.md says, the head as the session says. */
export async function provesLedger(database: pg.Pool, sessionId: string): Promise<string[]> {
  const events = await readLedger(database, sessionId);
  const wrong: string[] = [];
  let previous = createHash("sha256").update(sessionId).digest();
  for (const [index, row] of events.entries()) {
    if (row.seq !== index + 1) wrong.push(`position ${index + 1} of the ledger holds seq ${row.seq}`);
    if (!row.previous_hash.equals(previous)) wrong.push(`event ${row.seq} does not follow the hash before it`);
    const content = [sessionId, row.seq, row.id, row.thread_id, row.type, row.payload, row.received_at.toISOString()];
    previous = createHash("sha256").update(previous).update(JSON.stringify(content)).digest();
    if (!row.hash.equals(previous)) wrong.push(`event ${row.seq} has a wrong hash`);
  }
  if (new Set(events.map(({ id }) => id)).size !== events.length) wrong.push("an event id is there twice");
  const { rows } = await database.query<{ last_seq: number; last_hash: Buffer }>(
    "select last_seq, last_hash from sessions where id = $1",
    [sessionId],
  );
  if (rows[0]?.last_seq !== events.length)
    wrong.push(`the head is ${rows[0]?.last_seq}, the ledger has ${events.length}`);
  if (!rows[0]?.last_hash.equals(previous)) wrong.push("the head has another hash");
  return wrong;
}

export interface TurnRow {
  readonly id: string;
  readonly state: string;
  readonly trigger_event_id: string;
}

export async function readTurns(database: pg.Pool, sessionId: string): Promise<TurnRow[]> {
  const { rows } = await database.query<TurnRow>(
    "select id, state, trigger_event_id from turns where session_id = $1 order by ordinal",
    [sessionId],
  );
  return rows;
}

const payloadOf = (row: EventRow) => JSON.parse(row.payload) as Record<string, never>;

/** Nothing runs and nothing is promised any more; the idle is the last word, once, and every span is closed. */
export async function provesRest(
  database: pg.Pool,
  sessionId: string,
  options: { readonly endTurns?: number; readonly reasons?: readonly string[] } = {},
): Promise<string[]> {
  const events = await readLedger(database, sessionId);
  const turns = await readTurns(database, sessionId);
  const wrong: string[] = [];
  const active = turns.filter(({ state }) => !["completed", "interrupted", "exhausted"].includes(state));
  for (const turn of active) wrong.push(`${turn.id} is still ${turn.state}`);
  // An interrupt of a session that stands idle changes nothing.
  const last = events.findLast(({ type }) => type !== "user.interrupt");
  const reason = last?.type === "session.status_idle" ? payloadOf(last)["stop_reason"]?.["type"] : last?.type;
  if (!(options.reasons ?? ["end_turn"]).includes(reason ?? ""))
    wrong.push(`the last event is ${last?.type} (${reason}), not an idle of the turn's end`);
  const ends = events.filter(
    (event) => event.type === "session.status_idle" && payloadOf(event)["stop_reason"]?.["type"] !== "requires_action",
  );
  if (options.endTurns !== undefined && ends.length !== options.endTurns) {
    wrong.push(`there are ${ends.length} idles at the end of a turn (at ${ends.map(({ seq }) => seq).join()})`);
  }
  wrong.push(...statusLife(events));
  const starts = events.filter(({ type }) => type === "span.model_request_start");
  const closed = events.filter(({ type }) => type === "span.model_request_end");
  for (const start of starts) {
    const of = closed.filter((end) => payloadOf(end)["model_request_start_id"] === start.id);
    if (of.length !== 1) wrong.push(`the span that starts at ${start.seq} has ${of.length} ends`);
    if (of.some((end) => end.seq < start.seq)) wrong.push(`the span that starts at ${start.seq} ends before it`);
  }
  if (closed.length !== starts.length)
    wrong.push(`there are ${starts.length} starts of spans and ${closed.length} ends`);
  for (const event of events.filter(({ processed_at }) => processed_at === null)) {
    wrong.push(`event ${event.seq} (${event.type}) was never taken up`);
  }
  const count = async (what: string, sql: string) => {
    const { rows } = await database.query<{ n: number }>(`select count(*)::int as n from ${sql}`, [sessionId]);
    if (rows[0]?.n !== 0) wrong.push(`${what}: ${rows[0]?.n}`);
  };
  await count("actions that are still awaited", "pending_actions where session_id = $1 and resolution is null");
  await count("messages left in the outbox", "outbox where session_id = $1");
  await count(
    "provider calls without an end",
    "provider_calls where session_id = $1 and state in ('prepared', 'started')",
  );
  await count(
    "published tool calls without an end",
    "tool_steps where session_id = $1 and permission is not null and result is null",
  );
  await count(
    "published tool calls whose end no event tells",
    `tool_steps s where session_id = $1 and permission is not null and not exists (
       select 1 from events e where e.session_id = s.session_id and e.id = s.result_event_id)`,
  );
  await count(
    "sessions with two live work items",
    "(select 1 from work_items where session_id = $1 and state in ('queued', 'starting', 'active') having count(*) > 1) as two",
  );
  return wrong;
}

/**
 * The idle at the end of a turn is its last event: until the session runs again there is nothing but input. A message
 * that waits is never left behind it: then the session runs again at once. Nothing runs twice in a row.
 */
export function statusLife(events: readonly EventRow[]): string[] {
  const wrong: string[] = [];
  let status = "session.status_idle";
  for (const [index, event] of events.entries()) {
    if (event.type === "session.status_running" && status === event.type) wrong.push(`event ${event.seq} runs twice`);
    if (event.type.startsWith("session.status_")) status = event.type;
    if (event.type !== "session.status_idle" || payloadOf(event)["stop_reason"]?.["type"] === "requires_action")
      continue;
    const next = events.slice(index + 1).findIndex(({ type }) => type === "session.status_running");
    const until = next < 0 ? undefined : index + 1 + next;
    for (const { seq, type } of events.slice(index + 1, until)) {
      if (type !== "user.message" && type !== "user.interrupt")
        wrong.push(`${type} at ${seq} follows the idle at ${event.seq}`);
    }
    const waits = events.find(
      ({ seq, type, processed_at: at }) =>
        type === "user.message" && seq < event.seq && (at === null || at > (event.processed_at ?? at)),
    );
    if (waits !== undefined && next !== 0)
      wrong.push(`the idle at ${event.seq} leaves the message at ${waits.seq} behind`);
  }
  return wrong;
}

/** Waits until nothing is promised any more: what a crash left is delivered in seconds. */
export async function outboxSettles(database: pg.Pool, patienceMs: number): Promise<void> {
  for (const deadline = Date.now() + patienceMs; Date.now() < deadline; await sleep(50)) {
    const { rowCount } = await database.query("select 1 from outbox limit 1");
    if (rowCount === 0) return;
  }
}

/** What clients sent and was acknowledged is in the ledger once, and nothing else of that kind is. */
export async function provesAcknowledged(
  database: pg.Pool,
  sessionId: string,
  acknowledged: ReadonlySet<string>,
): Promise<string[]> {
  const sent = ["user.message", "user.interrupt", "user.tool_confirmation"];
  const stored = (await readLedger(database, sessionId)).filter(({ type }) => sent.includes(type));
  const unknown = stored.filter(({ id }) => !acknowledged.has(id));
  const lost = [...acknowledged].filter((one) => !stored.some(({ id }) => id === one));
  return [
    ...unknown.map(({ seq, type }) => `${type} at ${seq} was never acknowledged`),
    ...lost.map((id) => `${id} was acknowledged and is not in the ledger`),
  ];
}

export interface AcceptedJob {
  readonly name: string;
  readonly eventId: string;
}

/**
 * Each accepted message is in the ledger and in the transcript once; it has one turn, in the order of acceptance, or was
 * flushed by a turn that ended exhausted; a turn that was completed has its answer once, any other at most once.
 */
export async function provesInputs(
  database: pg.Pool,
  sessionId: string,
  accepted: readonly AcceptedJob[],
): Promise<string[]> {
  const events = await readLedger(database, sessionId);
  const turns = await readTurns(database, sessionId);
  const { rows: entries } = await database.query<{ content: string }>(
    `select e.content from transcript_entries e join turns t on t.id = e.turn_id
      where e.session_id = $1 and e.role = 'user' order by t.ordinal, e.ordinal`,
    [sessionId],
  );
  const wrong: string[] = [];
  const messages = events.filter(({ type }) => type === "user.message");
  if (messages.length !== accepted.length) {
    wrong.push(`${accepted.length} messages were accepted, the ledger has ${messages.length}`);
  }
  for (const { name, eventId } of accepted) {
    if (!messages.some(({ id }) => id === eventId)) wrong.push(`${name} was accepted and is not in the ledger`);
    const told = entries.filter(({ content }) => content.includes(`JOB ${name} `)).length;
    if (told !== 1) wrong.push(`${name} is ${told} times in the transcript`);
    const own = turns.filter((turn) => turn.trigger_event_id === eventId);
    const answers = events.filter(
      (event) => event.type === "agent.message" && event.payload.includes(answerTo(name)),
    ).length;
    if (own.length > 1) wrong.push(`${name} has ${own.length} turns`);
    if (own[0] === undefined && !turns.some(({ state }) => state === "exhausted")) wrong.push(`${name} has no turn`);
    const due = own[0]?.state === "completed" ? [1] : own[0] === undefined ? [0] : [0, 1];
    if (!due.includes(answers)) wrong.push(`${name} (${own[0]?.state ?? "flushed"}) is answered ${answers} times`);
  }
  const order = turns.map((turn) => messages.findIndex(({ id }) => id === turn.trigger_event_id));
  if (order.join() !== [...order].sort((a, b) => a - b).join()) wrong.push(`turns are out of order: ${order.join()}`);
  return wrong;
}

/** Calls of one round in the jobs that are played. */
const AT_ONCE = 2;

/**
 * The journal and the provider agree: every answered or refused call is in the journal under its request id with what
 * the provider counted; a request of the provider's that no row knows by its id was cut off by a crash or an abort, and
 * a row without an id is judged ambiguous or failed; the session's usage is the sum of the journal's.
 *
 * `lost` bounds the provider's requests whose usage may be missing: those under way when a process died.
 */
export async function provesUsage(
  database: pg.Pool,
  sessionId: string,
  provider: FaultProvider,
  options: { readonly jobs: ReadonlySet<string>; readonly lost: number },
): Promise<string[]> {
  const { rows: calls } = await database.query<{
    state: string;
    provider_request_id: string | null;
    input_tokens: number;
    output_tokens: number;
  }>(
    `select state, provider_request_id, input_tokens::int, output_tokens::int from provider_calls where session_id = $1
      union all
     select standing, provider_request_id, input_tokens::int, output_tokens::int from permission_evaluations where session_id = $1`,
    [sessionId],
  );
  const wrong: string[] = [];
  const known = new Set<string>();
  for (const call of calls) {
    const id = call.provider_request_id;
    if (id === null) {
      if (call.state === "completed") wrong.push("a completed call has no request id");
      continue;
    }
    if (known.has(id)) wrong.push(`${id} is in the journal twice`);
    known.add(id);
    const counted = provider.calls.get(id);
    if (counted?.input !== call.input_tokens || counted.output !== call.output_tokens) {
      wrong.push(
        `${id} (${call.state}): the journal says ${call.input_tokens}+${call.output_tokens}, the provider ${counted?.input}+${counted?.output}`,
      );
    }
  }
  const asked = [...provider.calls.values()].filter(({ job }) => options.jobs.has(job));
  const unknown = asked.filter(({ requestId }) => !known.has(requestId));
  // A model's call is written down before it is made; an evaluation is not, and those of one round run side by side.
  const own = unknown.filter(({ evaluates }) => evaluates === null);
  const judgments = unknown.filter(({ evaluates }) => evaluates !== null);
  if (own.length > options.lost || judgments.length > options.lost * AT_ONCE) {
    wrong.push(
      `the journal does not know ${unknown.map(({ requestId }) => requestId).join()}; ${options.lost} requests and ` +
        `${options.lost * AT_ONCE} judgments may be lost`,
    );
  }
  for (const { evaluates } of asked) {
    const times = asked.filter((one) => one.evaluates !== null && one.evaluates === evaluates).length;
    if (times > 1 + options.lost) wrong.push(`${evaluates} was judged ${times} times`);
  }
  if (calls.length < asked.length - judgments.length)
    wrong.push(`the provider was asked ${asked.length} times, the journal has ${calls.length} calls`);
  const sum = (field: "input_tokens" | "output_tokens") => calls.reduce((total, call) => total + call[field], 0);
  const { rows } = await database.query<{ input_tokens: number; output_tokens: number }>(
    "select input_tokens, output_tokens from sessions where id = $1",
    [sessionId],
  );
  const session = rows[0];
  if (session?.input_tokens !== sum("input_tokens") || session.output_tokens !== sum("output_tokens")) {
    wrong.push(
      `the session's usage is ${session?.input_tokens}+${session?.output_tokens}, its calls' ${sum("input_tokens")}+${sum("output_tokens")}`,
    );
  }
  return wrong;
}

/**
 * No call took effect twice, nor unseen, nor unallowed; one that did not take effect says so, or that it is unknown. Every
 * published call has one result.
 */
export async function provesEffects(
  database: pg.Pool,
  sessionId: string,
  workspaces: string,
): Promise<{ readonly wrong: string[]; readonly done: number; readonly unknown: number }> {
  const effects = await readEffects(path.join(workspaces, sessionId));
  const events = await readLedger(database, sessionId);
  const { rows: steps } = await database.query<{
    event_id: string;
    provider_tool_use_id: string;
    permission: string | null;
    is_error: boolean | null;
    confirmation: string | null;
    asks: boolean;
  }>(
    `select s.event_id, s.provider_tool_use_id, s.permission, s.is_error, p.resolution as confirmation, p.event_id is not null as asks
       from tool_steps s left join pending_actions p
         on p.session_id = s.session_id and p.event_id = s.event_id and p.need = 'confirmation'
      where s.session_id = $1`,
    [sessionId],
  );
  const wrong: string[] = [];
  let [done, unknown] = [0, 0];
  for (const step of steps) {
    const id = step.provider_tool_use_id;
    const times = effects.get(id) ?? 0;
    effects.delete(id);
    const published = events.some((event) => event.id === step.event_id);
    const results = events.filter(
      ({ type, payload }) => type.endsWith("tool_result") && payload.includes(`"tool_use_id":"${step.event_id}"`),
    ).length;
    if (times > 1) wrong.push(`${id} took effect ${times} times`);
    if (times > 0 && !published) wrong.push(`${id} took effect and was never published`);
    if (times > 0 && step.asks && step.confirmation !== "allow")
      wrong.push(`${id} took effect and was ${step.confirmation}`);
    if (results !== (published ? 1 : 0))
      wrong.push(`${id} is ${published ? "" : "not "}published and has ${results} results`);
    if (published && step.is_error === false && times !== 1) wrong.push(`${id} is said to have happened and did not`);
    if (published && step.is_error === false) done += 1;
    else if (published) unknown += 1;
  }
  for (const [id, times] of effects) wrong.push(`${id} took effect ${times} times and is no call of the session`);
  return { wrong, done, unknown };
}

async function readEffects(folder: string): Promise<Map<string, number>> {
  const effects = new Map<string, number>();
  for (const file of [BASH_FILE, EDIT_FILE]) {
    const text = await readFile(path.join(folder, file), "utf8").catch(() => "");
    for (const [id] of text.matchAll(/toolu_\S+/g)) effects.set(id, (effects.get(id) ?? 0) + 1);
  }
  return effects;
}
