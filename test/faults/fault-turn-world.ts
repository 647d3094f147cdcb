/** One session for the model-based test of the turn rules: real transactions, and everything around them in its hand. */
import { ModelAborted, ModelError, type ModelRequest, type ModelResponse } from "../../shared/model/model.ts";
import { relayAfterCommit, relayDue } from "../../shared/outbox/relay.ts";
import type { Product } from "../../shared/product.ts";
import { reconcile } from "../../shared/turns/reconcile.ts";
import type { TurnRef } from "../../statemachines/turn-payload.ts";
import { ask, customTool, toolset } from "../e2e/session-driver.ts";
import { type ByHand, type HandSession, SERVER_TOOL } from "./by-hand.ts";
import { type Execution, Executions } from "./fault-executions.ts";
import { type AcceptedJob, provesInputs, provesLedger, provesRest, readLedger, statusLife } from "./fault-proof.ts";
import { answerTo, currentJob, illegalities, job, type Message, NOT_USERS } from "./fault-provider.ts";

/** What the model does with a request. */
export const REPLIES = [
  "end",
  "worker",
  "pair",
  "ask",
  "custom",
  "server",
  "mixed",
  "unknown",
  "pause",
  "refusal",
  "cut",
  "overloaded",
  "broken",
  "full",
] as const;
export type ReplyKind = (typeof REPLIES)[number];

const CALLS: Readonly<Partial<Record<ReplyKind, readonly string[]>>> = {
  worker: ["bash"],
  pair: ["bash", "bash"],
  ask: ["edit"],
  custom: ["lookup"],
  server: ["fetch_page"],
  mixed: ["edit", "lookup", "fetch_page", "bash"],
  unknown: ["nonsense"],
  cut: ["bash"],
};
const STOPS: Readonly<Partial<Record<ReplyKind, string>>> = {
  end: "end_turn",
  pause: "pause_turn",
  refusal: "refusal",
  cut: "max_tokens",
  full: "model_context_window_exceeded",
};
/** Replies after which the turn is over and answered. */
const FINAL: readonly ReplyKind[] = ["end", "refusal", "cut"];

const PAUSED = "Paused";

interface Flight {
  readonly what: string;
  release(): void;
  readonly done: Promise<unknown>;
}

export interface OpenAction {
  readonly eventId: string;
  readonly need: "confirmation" | "result";
  readonly owner: string;
}

export class TurnWorld {
  readonly executions = new Executions();
  readonly session: HandSession;
  readonly accepted: AcceptedJob[] = [];
  /** Handlers that are in the middle of a model request. */
  readonly flights: Flight[] = [];
  /** What was done, for the report of a failure. */
  readonly trace: string[] = [];
  readonly product: Product;
  reply: ReplyKind = "end";
  toolBreaks = false;
  /** What a delivery does: arrives and is answered, never gets there, or arrives and the answer is lost. */
  line: "good" | "dead" | "deaf" = "good";
  readonly #hand: ByHand;
  /** Handlers whose process is dead; they end only with the world. */
  readonly #dead: Flight[] = [];
  readonly #wrong: string[] = [];
  /** Requests to the model that have no answer yet, and whether their leases live. */
  readonly #requests: { readonly job: string | undefined; leased: boolean }[] = [];
  readonly #toolRuns = new Map<string, number>();
  #held: { readonly asked: PromiseWithResolvers<void>; readonly gate: PromiseWithResolvers<void> } | null = null;
  #responses = 0;
  #messages = 0;

  private constructor(hand: ByHand, session: HandSession) {
    this.#hand = hand;
    this.session = session;
    this.executions.watch = (ref, action) => this.#fenced(ref, action);
    const { start, find, release } = this.executions.orchestrator;
    this.product = {
      ...hand.product,
      log: { debug() {}, info() {}, warn: (message) => this.#warned(message), error() {} },
      orchestrator: {
        start: (params) => this.#overTheLine(() => start(params)),
        find,
        release: (params) => this.#overTheLine(() => release(params)),
      },
      model: { provider: "messages", stream: (request) => this.#answer(request) },
      tools: {
        run: async ({ idempotencyKey }) => {
          this.#toolRuns.set(idempotencyKey, (this.#toolRuns.get(idempotencyKey) ?? 0) + 1);
          await this.#pause();
          if (this.toolBreaks) throw new Error("The tool broke off.");
          return { content: '[{"type":"text","text":"fetched"}]', isError: false };
        },
      },
    };
  }

  static async open(hand: ByHand): Promise<TurnWorld> {
    const tools = [toolset(ask("edit")), customTool("lookup")];
    return new TurnWorld(hand, await hand.open(tools, [SERVER_TOOL]));
  }

  #warned(message: string): void {
    // The database never fails here, so that a handler which has to store again was refused by it.
    if (message.startsWith("An outcome could not be stored")) this.#wrong.push(message);
  }

  async #overTheLine<T>(say: () => Promise<T>): Promise<T> {
    if (this.line === "dead") throw new Error("The line is dead.");
    const answer = await say();
    if (this.line === "deaf") throw new Error("The answer got lost.");
    return answer;
  }

  async #answer(request: ModelRequest): Promise<ModelResponse> {
    const kind = this.reply;
    const { messages } = JSON.parse(request.body) as { messages: readonly Message[] };
    // After pause_turn the same blocks are sent again, and the model goes on.
    const paused = messages.at(-1)?.content.at(-1)?.text?.startsWith(PAUSED) === true;
    for (const complaint of illegalities(messages)) {
      if (!paused || complaint !== NOT_USERS) this.#wrong.push(`provider request: ${complaint}`);
    }
    const asked = currentJob(messages);
    const open = { job: asked?.name, leased: true };
    if (this.#requests.some(({ job, leased }) => leased && job === open.job)) {
      this.#wrong.push("the model is asked while a request of the same turn has a live lease");
    }
    this.#requests.push(open);
    await this.#pause();
    this.#requests.splice(this.#requests.indexOf(open), 1);
    if (request.signal.aborted) throw new ModelAborted(null);
    if (kind === "overloaded")
      throw new ModelError("Busy.", { type: "model_overloaded_error", retryable: true, status: 529 });
    if (kind === "broken") {
      throw new ModelError("No.", { type: "model_request_failed_error", retryable: false, status: 400 });
    }
    const n = ++this.#responses;
    const text = FINAL.includes(kind)
      ? answerTo(asked?.name ?? "nobody")
      : `${kind === "pause" ? PAUSED : "Working"} ${n}.`;
    const uses = (CALLS[kind] ?? []).map((name, i) => ({ type: "tool_use", id: `toolu_${n}_${i}`, name, input: {} }));
    return {
      content: JSON.stringify([{ type: "text", text }, ...uses]),
      stopReason: STOPS[kind] ?? "tool_use",
      stopDetails: null,
      model: "test-1",
      usage: { ...NO_CACHE, inputTokens: n, outputTokens: 1 },
      requestId: `req_${n}`,
    };
  }

  /** An external call that takes long, when the test wants it to. */
  async #pause(): Promise<void> {
    const held = this.#held;
    this.#held = null;
    held?.asked.resolve();
    await held?.gate.promise;
  }

  /**
   * Does something that may make an external call. `slowly`: the call takes long, and goes on later, by `flights`. `and
   * dies`: the process dies meanwhile, and nobody goes on.
   */
  async during(what: string, pace: "at once" | "slowly" | "and dies", action: () => Promise<unknown>): Promise<void> {
    if (pace === "at once") {
      await action();
      return;
    }
    const held = { asked: Promise.withResolvers<void>(), gate: Promise.withResolvers<void>() };
    this.#held = held;
    const done = action();
    const asked = await Promise.race([held.asked.promise.then(() => true), done.then(() => false)]);
    this.#held = null;
    const flight = { what, release: () => held.gate.resolve(), done };
    if (asked) (pace === "slowly" ? this.flights : this.#dead).push(flight);
  }

  async land(flight: Flight): Promise<void> {
    const at = this.flights.indexOf(flight);
    if (at >= 0) this.flights.splice(at, 1);
    flight.release();
    await flight.done;
  }

  /** A handler of a segment that is not the turn's any more publishes nothing but the end of its own span. */
  async #fenced<T>(ref: TurnRef, action: () => Promise<T>): Promise<T> {
    const { pool } = this.#hand.database;
    const { rows } = await pool.query("select 1 from turns where id = $1 and segment > $2", [ref.turnId, ref.segment]);
    if (rows.length === 0) return action();
    const before = (await readLedger(pool, this.session.id)).length;
    const quiet = this.flights.length === 0;
    const answer = await action();
    const published = (await readLedger(pool, this.session.id)).slice(before).map(({ type }) => type);
    const bad = published.filter((type) => type !== "span.model_request_end");
    if (quiet && bad.length > 0)
      this.#wrong.push(`segment ${ref.segment} has lost its turn and publishes ${bad.join()}`);
    return answer;
  }

  message() {
    this.#messages += 1;
    return job(`m${this.#messages}`, "say");
  }

  /** Admits a batch; whether its messages to Step Functions are sent after the commit is the caller's choice. */
  async post(events: readonly object[], relay: boolean): Promise<"accepted" | number> {
    try {
      const admitted = await this.session.send(...events);
      for (const [index, event] of events.entries()) {
        const { content } = event as Partial<ReturnType<typeof job>>;
        const { id } = JSON.parse(admitted.events[index] ?? "{}") as { id: string };
        if ((event as { type: string }).type === "user.message") {
          this.accepted.push({ name: content?.[0]?.text.split(" ")[1] ?? "", eventId: id });
        }
      }
      if (relay) await relayAfterCommit(this.product, admitted.outbox);
      return "accepted";
    } catch (error) {
      const { status } = error as { status?: number };
      if (status === undefined) throw error;
      return status;
    }
  }

  async openActions(): Promise<OpenAction[]> {
    const { rows } = await this.#hand.database.pool.query<OpenAction>(
      `select p.event_id as "eventId", p.need, s.owner from pending_actions p join tool_steps s on s.id = p.step_id
        where p.session_id = $1 and p.resolution is null
          and (p.need = 'confirmation' or not exists (select 1 from pending_actions c
                where c.session_id = p.session_id and c.event_id = p.event_id and c.need = 'confirmation' and c.resolution is null))
        order by s.turn_id, s.round, s.position, p.need`,
      [this.session.id],
    );
    return rows;
  }

  /** A wait's time is up. */
  async timeOut(execution: Execution): Promise<void> {
    await this.session.pauseIsOver();
    this.executions.timeOut(execution);
  }

  /** The leases of calls run out, whether or not somebody is still at it. */
  async expireLeases(): Promise<void> {
    const { pool } = this.#hand.database;
    for (const open of this.#requests) open.leased = false;
    const past = "clock_timestamp() - interval '1 second'";
    await pool.query(
      `update provider_calls set lease_expires_at = ${past} where session_id = $1 and state = 'started'`,
      [this.session.id],
    );
    await pool.query(`update tool_steps set lease_expires_at = ${past} where session_id = $1 and state = 'started'`, [
      this.session.id,
    ]);
  }

  /** The scheduled relay, when every claim has run out. */
  async relay(): Promise<void> {
    await this.#hand.database.pool.query(
      "update outbox set claimed_until = now() - interval '1 second' where session_id = $1",
      [this.session.id],
    );
    await relayDue(this.product);
  }

  /** What must hold at every moment. */
  async check(): Promise<void> {
    const { pool } = this.#hand.database;
    const events = await readLedger(pool, this.session.id);
    const { rows } = await pool.query<{
      status: string;
      stop_reason: string | null;
      active: number;
    }>(
      `select s.status, s.stop_reason, count(t.id)::int as active
         from sessions s left join turns t on t.session_id = s.id
              and t.state in ('running', 'parked', 'hibernated', 'backing_off')
        where s.id = $1 group by s.id`,
      [this.session.id],
    );
    const { rows: told } = await pool.query<{ content: string }>(
      "select content from transcript_entries where session_id = $1 and role = 'user'",
      [this.session.id],
    );
    const wrong = [
      ...this.#wrong,
      ...this.executions.errors,
      ...(await provesLedger(pool, this.session.id)),
      ...statusLife(events),
    ];
    const session = rows[0];
    if (session === undefined) throw new Error("The session is gone.");
    if (session.active > 1) wrong.push(`${session.active} turns are active`);
    const ended = session.status === "idle" && session.stop_reason !== "requires_action";
    if (ended !== (session.active === 0))
      wrong.push(`the session is ${session.status} (${session.stop_reason}), and ${session.active} turns are active`);
    if (ended && events.some(({ type, processed_at }) => type === "user.message" && processed_at === null)) {
      wrong.push("a message waits and the session is idle");
    }
    for (const { name } of this.accepted) {
      const times = told.filter(({ content }) => content.includes(`JOB ${name} `)).length;
      if (times > 1) wrong.push(`${name} is ${times} times in the transcript`);
    }
    const open = new Set<string>();
    for (const event of events) {
      if (event.type === "span.model_request_start") open.add(event.id);
      if (event.type !== "span.model_request_end") continue;
      const { model_request_start_id: start } = JSON.parse(event.payload) as { model_request_start_id: string };
      if (!open.delete(start)) wrong.push(`event ${event.seq} ends a span that is not open`);
    }
    if (open.size > (session.active === 0 ? 0 : 1))
      wrong.push(`${open.size} spans are open while ${session.active} turns are active`);
    for (const [key, runs] of this.#toolRuns) if (runs > 1) wrong.push(`the call ${key} was run ${runs} times`);
    this.#fail(wrong);
  }

  #fail(wrong: readonly string[]): void {
    if (wrong.length > 0) throw new Error(`${wrong.join("\n")}\nafter:\n  ${this.trace.join("\n  ")}`);
  }

  /** Everything that is under way arrives, everyone who is asked answers, the model ends; then the session must rest. */
  async comeToRest(): Promise<void> {
    Object.assign(this, { reply: "end", toolBreaks: false, line: "good" });
    const { pool } = this.#hand.database;
    const rests = async () => {
      const { rows } = await pool.query<{ n: number }>(
        `select (select count(*) from turns where session_id = $1 and ended_at is null)
              + (select count(*) from outbox where session_id = $1) as n`,
        [this.session.id],
      );
      return Number(rows[0]?.n) === 0 && this.flights.length === 0;
    };
    for (let pass = 0; pass < 60 + 8 * this.accepted.length && !(await rests()); pass++) {
      for (const flight of [...this.flights]) await this.land(flight);
      await this.expireLeases();
      await this.relay();
      for (const { arrive } of this.executions.said.splice(0)) arrive();
      for (const execution of this.executions.runnable) await this.executions.run(this.product, execution);
      for (const { eventId, need, owner } of await this.openActions()) {
        await this.post([need === "confirmation" ? allow(eventId) : result(eventId, owner)], true);
      }
      const later = pass % 10 === 9;
      for (const execution of this.executions.waiting) {
        // An answer that Step Functions took and lost all the same is found when the wait's day is over.
        if (execution.state === "Backoff" || later) await this.timeOut(execution);
      }
      if (later) await reconcile(this.product, { idleSeconds: 0 });
    }
    await this.check();
    const reasons = ["end_turn", "refusal", "retries_exhausted"];
    this.#fail(
      this.accepted.length === 0
        ? []
        : [
            ...((await rests()) ? [] : [`the session never comes to rest: ${await this.#standing()}`]),
            ...(await provesRest(pool, this.session.id, { reasons })),
            ...(await provesInputs(pool, this.session.id, this.accepted)),
          ],
    );
  }

  async #standing(): Promise<string> {
    const open = this.executions.open.map(
      ({ name, state, token }) => `${name} in ${state}${token ? ` on ${token}` : ""}`,
    );
    return JSON.stringify({ turns: await this.session.turns(), outbox: await this.session.outbox(), open });
  }

  /** Leaves nothing behind that another session's relay or reconciler would find. */
  async close(): Promise<void> {
    const { pool } = this.#hand.database;
    for (const flight of [...this.flights, ...this.#dead]) await this.land(flight).catch(() => {});
    await pool.query("delete from outbox where session_id = $1", [this.session.id]);
    await pool.query("update turns set state = 'interrupted' where session_id = $1 and ended_at is null", [
      this.session.id,
    ]);
  }
}

const NO_CACHE = { cacheReadInputTokens: 0, cacheCreationInputTokens: 0, webSearchRequests: 0, webFetchRequests: 0 };

export const allow = (eventId: string) => ({ type: "user.tool_confirmation", tool_use_id: eventId, result: "allow" });
export const deny = (eventId: string) => ({ type: "user.tool_confirmation", tool_use_id: eventId, result: "deny" });
export const result = (eventId: string, owner: string) =>
  owner === "client_custom"
    ? { type: "user.custom_tool_result", custom_tool_use_id: eventId, content: [{ type: "text", text: "found" }] }
    : { type: "user.tool_result", tool_use_id: eventId, content: [{ type: "text", text: "done" }] };
