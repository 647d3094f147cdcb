import type { Log } from "../shared/ports/log.ts";
import { type ApiClient, errorLabel, isFatal } from "./api-client.ts";
import { BOOK_EVENT_TYPES, CallBook, type ToolCall } from "./call-book.ts";
import { deliverResult } from "./result-delivery.ts";
import { StopReason, type ToolResult } from "./tools/tool.ts";
import type { ToolRequest } from "./tools/toolset.ts";
import { type Wait, wait } from "./wait.ts";

const RECONNECT_FIRST_MS = 500;
const RECONNECT_MAX_MS = 10_000;

/** Why a run came to its end. */
export type RunEnd = "session_ended" | "idle" | "stopped";

/** What runs a call: the toolset of the session. */
export interface CallTarget {
  has(toolName: string): boolean;
  run(call: ToolRequest, signal: AbortSignal): Promise<ToolResult>;
}

/** What is remembered over a crash: the journal of the session. */
export interface CallMemory {
  readonly interrupted: ReadonlySet<string>;
  started(callId: string): Promise<void>;
  posted(callId: string): Promise<void>;
}

export interface SessionToolRunnerOptions {
  readonly client: ApiClient;
  readonly sessionId: string;
  readonly tools: CallTarget;
  readonly journal: CallMemory;
  readonly log: Log;
  /** How long to stay after a turn has ended; 0 or less is for ever. */
  readonly maxIdleMs: number;
  /** How long a result is worth sending. */
  readonly sendWindowMs: () => number;
  /** How long to go on sending after a stop. */
  readonly drainMs: number;
  /** False once the session belongs to another worker: then nothing may be sent any more. */
  readonly mayDeliver: () => boolean;
  readonly wait?: Wait;
}

export const EFFECT_UNKNOWN: ToolResult = {
  text:
    "The worker stopped while this call was running, so its effect is unknown: it may or may not have happened. " +
    "It was not run again. Check the state before repeating it.",
  isError: true,
};

/**
 * Runs the tool calls of one session until it ends, stays idle, or `stop` aborts.
 *
 * Two loops. One follows the session: it opens the stream, then reads the history (so that what happens in between
 * waits on the stream), then goes on with the stream; every event goes into the book. The other takes the calls that
 * the book says may run, one at a time: journal, tool, result. They run side by side, so that an interrupt reaches a
 * running tool: its call is closed by someone else, and the tool is stopped.
 */
export class SessionToolRunner {
  readonly #options: SessionToolRunnerOptions;
  readonly #wait: Wait;
  readonly #book: CallBook;
  /** Calls that are queued, running or done here; each is taken once. */
  readonly #taken = new Set<string>();
  readonly #queue: ToolCall[] = [];
  /** Calls that were begun, here or before a crash, and whose results the server has not accepted. */
  readonly #begun = new Set<string>();
  /** Results that the server has not accepted yet. */
  readonly #results = new Map<string, ToolResult>();
  readonly #over = new AbortController();
  readonly #giveUp = new AbortController();
  #end: RunEnd | null = null;
  #connection: AbortController | null = null;
  #running: { readonly id: string; readonly abort: AbortController } | null = null;
  #working: Promise<void> | null = null;
  #idleTimer: NodeJS.Timeout | null = null;

  constructor(options: SessionToolRunnerOptions) {
    this.#options = options;
    this.#wait = options.wait ?? wait;
    this.#book = new CallBook((name) => options.tools.has(name));
  }

  /** True when a call that is still open may have had its effect, and nobody has told the server. */
  get leavesBegun(): boolean {
    return [...this.#begun].some((callId) => this.#book.mayRun(callId));
  }

  /** Rejects only when the server refuses us for good. */
  async run(stop: AbortSignal): Promise<RunEnd> {
    const onStop = () => this.#finish("stopped");
    stop.addEventListener("abort", onStop, { once: true });
    if (stop.aborted) onStop();
    try {
      await this.#follow();
    } finally {
      stop.removeEventListener("abort", onStop);
      this.#finish("stopped");
      await this.#drain();
    }
    return this.#end ?? "stopped";
  }

  async #follow(): Promise<void> {
    const { client, sessionId, log } = this.#options;
    const { signal } = this.#over;
    let delay = RECONNECT_FIRST_MS;
    while (!signal.aborted) {
      try {
        // This loop is the retry.
        const stream = await client.beta.sessions.events.stream(sessionId, {}, { signal, maxRetries: 0 });
        this.#connection = stream.controller;
        try {
          await this.#readHistory();
          this.#dispatch();
          for await (const event of stream) {
            if (signal.aborted) return;
            delay = RECONNECT_FIRST_MS;
            this.#book.ingest(event);
            this.#dispatch();
          }
        } finally {
          stream.controller.abort();
        }
        log.debug("the stream ended", { session: sessionId });
      } catch (error) {
        if (signal.aborted) return;
        if (isFatal(error)) throw error;
        log.warn("the stream broke", { session: sessionId, error: errorLabel(error) });
      }
      await this.#wait(delay, signal);
      delay = Math.min(delay * 2, RECONNECT_MAX_MS);
    }
  }

  async #readHistory(): Promise<void> {
    const { client, sessionId } = this.#options;
    const query = { limit: 1000, types: [...BOOK_EVENT_TYPES] };
    for await (const event of client.beta.sessions.events.list(sessionId, query, { signal: this.#over.signal })) {
      this.#book.ingest(event);
    }
    // A result that could not be sent gets another chance.
    for (const callId of this.#results.keys()) if (this.#running?.id !== callId) this.#taken.delete(callId);
  }

  /** Acts on what the book says now. */
  #dispatch(): void {
    if (this.#book.sessionEnded) {
      this.#finish("session_ended");
      return;
    }
    if (this.#over.signal.aborted) return;
    if (this.#running !== null && !this.#book.mayRun(this.#running.id)) {
      this.#running.abort.abort(new StopReason("the call was closed"));
    }
    for (const call of this.#book.runnable()) {
      if (this.#taken.has(call.id)) continue;
      this.#taken.add(call.id);
      this.#queue.push(call);
    }
    this.#working ??= this.#queue.length > 0 ? this.#work() : null;
    this.#watchIdle();
  }

  async #work(): Promise<void> {
    for (let call = this.#queue.shift(); call !== undefined; call = this.#queue.shift()) {
      await this.#settle(call);
    }
    this.#working = null;
    this.#watchIdle();
  }

  async #settle(call: ToolCall): Promise<void> {
    if (this.#over.signal.aborted || !this.#book.mayRun(call.id)) return;
    const abort = new AbortController();
    this.#running = { id: call.id, abort };
    this.#begun.add(call.id);
    try {
      const result = this.#results.get(call.id) ?? (await this.#obtain(call, abort.signal));
      this.#results.set(call.id, result);
      await this.#deliver(call, result);
    } finally {
      this.#running = null;
    }
  }

  async #obtain(call: ToolCall, signal: AbortSignal): Promise<ToolResult> {
    const { tools, journal, log, sessionId } = this.#options;
    const about = { session: sessionId, call: call.id, tool: call.name, trace: call.traceId ?? undefined };
    if (journal.interrupted.has(call.id)) {
      log.warn("a call was cut off earlier; its effect is unknown", about);
      return EFFECT_UNKNOWN;
    }
    try {
      await journal.started(call.id);
    } catch (error) {
      log.error("the journal cannot be written; the call is not run", { ...about, error: errorLabel(error) });
      return { text: "The worker could not record the start of this call, so it was not run.", isError: true };
    }
    const since = performance.now();
    const result = await tools.run(call, signal);
    log.info("ran a tool", { ...about, error: result.isError, ms: Math.round(performance.now() - since) });
    return result;
  }

  async #deliver(call: ToolCall, result: ToolResult): Promise<void> {
    const { journal, log, sessionId } = this.#options;
    if (this.#book.sessionEnded || !this.#options.mayDeliver()) return;
    const delivery = this.#book.mayRun(call.id)
      ? await deliverResult(
          { ...this.#options, wait: this.#wait, windowMs: this.#options.sendWindowMs },
          call.id,
          result,
          this.#giveUp.signal,
        )
      : "closed";
    if (delivery === "accepted" || delivery === "closed") {
      this.#book.close(call.id);
      this.#results.delete(call.id);
      this.#begun.delete(call.id);
      await journal.posted(call.id).catch(() => {});
    } else if (delivery === "refused") {
      this.#results.delete(call.id);
      log.error("the server refused the result for good", { session: sessionId, call: call.id });
    } else {
      // Starting over with the history is what gives the result its next chance.
      this.#connection?.abort();
    }
  }

  #finish(end: RunEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#stopIdleTimer();
    this.#over.abort();
    const why = end === "session_ended" ? "the session has ended" : "the worker is stopping";
    this.#running?.abort.abort(new StopReason(why));
  }

  /** Waits for the running call to be answered, within bounds. Calls that have not begun stay open. */
  async #drain(): Promise<void> {
    this.#queue.length = 0;
    const timer = setTimeout(() => this.#giveUp.abort(), this.#options.drainMs);
    await this.#working?.finally(() => clearTimeout(timer));
    clearTimeout(timer);
  }

  #watchIdle(): void {
    const quiet = this.#book.turnOver && this.#working === null && !this.#over.signal.aborted;
    if (!quiet) {
      this.#stopIdleTimer();
    } else if (this.#idleTimer === null && this.#options.maxIdleMs > 0) {
      this.#idleTimer = setTimeout(() => this.#finish("idle"), this.#options.maxIdleMs);
    }
  }

  #stopIdleTimer(): void {
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }
}
