import { SESSION_DELETED } from "../contract/events.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { type LedgerEvent, publicEvent } from "../ledger/event.ts";
import { eventsAfter, ledgerHead, stampedAmong } from "../ledger/read.ts";
import type { Log } from "../ports/log.ts";
import type { LedgerWatch } from "./ledger-watch.ts";
import type { LiveChannel, LiveSubscription, Preview } from "./live-channel.ts";
import { comment, frame, retryHint } from "./sse.ts";

/**
 * One attached stream.
 *
 * attached → following → ended. It subscribes to the live channel first and reads the ledger's head second, so nothing
 * committed after the attach is missed. From then on a wake-up, or at the latest the shared look at the ledger's head,
 * makes it read on from where it stands: the channel decides how soon an event is shown, the ledger alone decides what
 * is shown and in which order.
 *
 * Previews are shown between ledger events: never before the start of their span, never after their message.
 *
 * It reads the ledger only while the client takes what it is given, so a slow client costs a bounded buffer, and one
 * that takes nothing for half a minute is cut off; it loses nothing, because Last-Event-ID brings it back.
 */

/** Below every known proxy's idle limit (about 16 s, omnara-ai/omnara#421); the EventSource specification says 15 s. */
const KEEP_ALIVE_MS = 10_000;
/** How often the live channel is asked where it cannot tell by itself. */
const POLL_RUNNING_MS = 200;
const POLL_IDLE_MS = 2000;
const ACCESS_MS = 1000;
/** Events read at once. */
const PAGE = 200;
/** Bytes that wait for a client before reading stops. */
const BUFFER_BYTES = 256 * 1024;
/** Previews that wait for a client; more are dropped, the message itself comes in any case. */
const MAX_PREVIEWS = 500;
/** How long a client may take nothing. */
const STALL_MS = 30_000;
/** A client that was cut off, or outlived its stream, may come back at once. */
const RETRY_MS = 500;

export interface StreamServices {
  readonly database: Transaction;
  readonly live: LiveChannel;
  readonly watch: LedgerWatch;
  readonly log: Log;
}

export interface SessionStreamParams {
  readonly sessionId: string;
  /** Only this thread's events; null for the session's. */
  readonly threadId: string | null;
  /** Replay from after this ledger position; null shows only what comes after the attach. */
  readonly afterSeq: number | null;
  /** Which previews are wanted: `agent.message`, `agent.thinking`. */
  readonly previews: ReadonlySet<string>;
  /** How long the stream lives, in milliseconds; null for as long as the client likes. */
  readonly lifeMs: number | null;
  /** Aborted when the server stops. */
  readonly stopping?: AbortSignal | undefined;
  /** Asked every second; false ends the stream. */
  readonly stillAllowed: () => Promise<boolean>;
  /** Asked after each read that found something, before that is shown; false ends the stream. */
  readonly mayBeShown: () => Promise<boolean>;
  /** Called once, however the stream ends. */
  readonly onEnd: () => void;
}

/**
 * Attaches to a session and returns the stream's bytes. When it resolves the stream has its place in the ledger: what is
 * committed from then on is shown, however soon a client acts on the answer's headers.
 */
export async function openSessionStream(
  services: StreamServices,
  params: SessionStreamParams,
): Promise<ReadableStream<Uint8Array>> {
  const stream = new SessionStream(services, params);
  try {
    await stream.attach();
  } catch (error) {
    stream.close();
    throw error;
  }
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stream.run(controller).catch((error: unknown) => {
          services.log.warn("A stream broke; the client will connect again.", {
            session_id: params.sessionId,
            error: error instanceof Error ? error.name : "unknown",
          });
          stream.close();
        });
      },
      pull: () => stream.roomAgain(),
      cancel: () => stream.close(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: BUFFER_BYTES }),
  );
}

class SessionStream {
  readonly #services: StreamServices;
  readonly #params: SessionStreamParams;
  /** Set when the answer's body begins to be read. */
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  readonly #subscription: LiveSubscription;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #previews: Preview[] = [];
  /** Queued events whose stamp the client has not seen. */
  readonly #unstamped = new Set<number>();
  /** Events whose preview this client has been given from the start; the value is the next piece expected. */
  readonly #previewed = new Map<string, number>();
  /** The position of the model request's start that is open on this stream; null between requests. */
  #span: number | null = null;
  /** Events of the open span that have been shown; their previews are too late. */
  readonly #shown = new Set<string>();
  #unwatch: (() => void) | undefined;
  #proceed: (() => void) | undefined;
  #seq = 0;
  #look = true;
  #deleted = false;
  #closed = false;
  /** Since when the client has taken nothing; null while there is room. */
  #stalledAt: number | null = null;

  constructor(services: StreamServices, params: SessionStreamParams) {
    this.#services = services;
    this.#params = params;
    this.#subscription = services.live.subscribe(params.sessionId, (message) => {
      if (message.type === "wake") {
        this.#look = true;
      } else if (message.type === "deleted") {
        this.#deleted = true;
      } else if (this.#wants(message)) {
        this.#previews.push(message);
      } else {
        return;
      }
      this.#proceed?.();
    });
  }

  /** Takes the stream's place in the ledger. */
  async attach(): Promise<void> {
    const { sessionId, afterSeq } = this.#params;
    const head = await ledgerHead(this.#services.database, { sessionId });
    this.#seq = Math.min(afterSeq ?? head.lastSeq, head.lastSeq);
    this.#subscription.pollEvery(head.running ? POLL_RUNNING_MS : POLL_IDLE_MS);
    for (const seq of head.queued) {
      if (seq <= this.#seq) {
        this.#unstamped.add(seq);
      }
    }
  }

  async run(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#controller = controller;
    this.#send(comment("ok"));
    const { watch } = this.#services;
    const { sessionId, lifeMs } = this.#params;
    this.#unwatch = watch.watch(sessionId, {
      seq: () => this.#seq,
      onGrown: () => {
        this.#look = true;
        this.#proceed?.();
      },
      onDeleted: () => {
        this.#deleted = true;
        this.#proceed?.();
      },
    });
    this.#every(ACCESS_MS, () => void this.#checkAccess());
    this.#every(KEEP_ALIVE_MS, () => this.#keepAlive());
    if (lifeMs !== null) {
      this.#every(lifeMs, () => this.#endWithHint());
    }
    this.#params.stopping?.addEventListener("abort", this.#onStopping);
    if (this.#params.stopping?.aborted) {
      this.#endWithHint();
    }
    while (!this.#closed) {
      await this.#showAll();
      if (this.#deleted) {
        const gone = { id: newId("sevt"), type: SESSION_DELETED, processed_at: new Date().toISOString() };
        this.#send(frame(SESSION_DELETED, JSON.stringify(gone)));
        this.close();
      }
      await this.#pause();
    }
  }

  /** The client has taken what it was given. */
  roomAgain(): void {
    this.#stalledAt = null;
    this.#proceed?.();
  }

  close(): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#subscription.close();
    this.#unwatch?.();
    this.#params.stopping?.removeEventListener("abort", this.#onStopping);
    for (const timer of this.#timers) {
      clearInterval(timer);
    }
    this.#proceed?.();
    try {
      this.#controller?.close();
    } catch {
      // Cancelled by the client: closed already.
    }
    this.#params.onEnd();
  }

  #wants(preview: Preview): boolean {
    const type = preview.event.type === "event_start" ? preview.event.event.type : "agent.message";
    const own = this.#params.threadId === null || preview.threadId === this.#params.threadId;
    return own && this.#params.previews.has(type) && this.#previews.length < MAX_PREVIEWS;
  }

  /**
   * Shows what is there while there is room, in the order in which the channel told of it: previews up to the next one
   * that needs the ledger to be read further, then the ledger. So a message that is committed already does not take
   * the previews with it that came before.
   */
  async #showAll(): Promise<void> {
    while (!this.#closed && this.#hasRoom() && (this.#look || this.#previews.length > 0)) {
      const preview = this.#previews[0];
      if (preview === undefined || preview.afterSeq > this.#seq) {
        this.#look = false;
        const before = this.#seq;
        await this.#showLedger();
        if (preview !== undefined && this.#seq === before) {
          // Told of a position that the ledger does not have: a preview of what was never committed.
          this.#previews.shift();
        }
      } else {
        this.#previews.shift();
        this.#showPreview(preview);
      }
    }
  }

  async #showLedger(): Promise<void> {
    const { database } = this.#services;
    const { sessionId } = this.#params;
    if (this.#unstamped.size > 0) {
      for (const event of await stampedAmong(database, { sessionId, seqs: [...this.#unstamped] })) {
        this.#unstamped.delete(event.seq);
        this.#sendEvent(event, undefined);
      }
    }
    const page = { sessionId, afterSeq: this.#seq, limit: PAGE, bytes: BUFFER_BYTES };
    const events = await eventsAfter(database, page);
    if (events.length > 0 && !(await this.#params.mayBeShown())) {
      this.close();
      return;
    }
    for (const event of events) {
      this.#seq = event.seq;
      if (event.processedAt === null) {
        this.#unstamped.add(event.seq);
      }
      this.#followSpan(event);
      this.#sendEvent(event, event.seq);
      // A quick answer is in the ledger by now; what was previewed of it before comes before it.
      while (this.#span === event.seq && this.#previews[0]?.afterSeq === event.seq) {
        this.#showPreview(this.#previews.shift() as Preview);
      }
      if (event.type === "session.status_running" || event.type === "session.status_idle") {
        this.#subscription.pollEvery(event.type === "session.status_idle" ? POLL_IDLE_MS : POLL_RUNNING_MS);
      }
    }
    // A page may end early for its size; only an empty one is the end.
    this.#look ||= events.length > 0;
  }

  #sendEvent(event: LedgerEvent, id: number | undefined): void {
    if (this.#params.threadId === null || event.threadId === this.#params.threadId) {
      this.#send(frame(event.type, publicEvent(event), id));
    }
  }

  /** The end of a span ends its previews, finished or not. */
  #followSpan(event: LedgerEvent): void {
    if (event.type === "span.model_request_start" || event.type === "span.model_request_end") {
      this.#span = event.type === "span.model_request_start" ? event.seq : null;
      this.#shown.clear();
      this.#previewed.clear();
    } else if (this.#span !== null) {
      this.#shown.add(event.id);
    }
  }

  /**
   * A preview is shown from its first piece on, without a gap, or not at all; and only while its span is open and its
   * event not yet shown.
   */
  #showPreview(preview: Preview): void {
    const { event } = preview;
    const id = event.type === "event_start" ? event.event.id : event.event_id;
    if (preview.afterSeq !== this.#span || this.#shown.has(id)) {
      return;
    }
    const expected = event.type === "event_start" ? 0 : this.#previewed.get(id);
    if (expected !== preview.piece) {
      this.#previewed.delete(id);
      return;
    }
    this.#previewed.set(id, preview.piece + 1);
    this.#send(frame(event.type, JSON.stringify(event)));
  }

  #hasRoom(): boolean {
    return (this.#controller?.desiredSize ?? 0) > 0;
  }

  /** Waits for a reason to go on: a wake-up, a preview, room, or the end. */
  async #pause(): Promise<void> {
    const busy = this.#look || this.#previews.length > 0;
    if (this.#closed || (busy && this.#hasRoom())) {
      return;
    }
    await new Promise<void>((resolve) => {
      this.#proceed = resolve;
    });
    this.#proceed = undefined;
  }

  #keepAlive(): void {
    if (this.#hasRoom()) {
      this.#send(comment("keep-alive"));
      return;
    }
    this.#stalledAt ??= performance.now();
    if (performance.now() - this.#stalledAt >= STALL_MS) {
      this.#services.log.info("A stream was cut off: its client took nothing for half a minute.", {
        session_id: this.#params.sessionId,
      });
      // An error drops what is still buffered, and the connection with it; a close would wait for the client.
      this.#controller?.error(new Error("The client is too slow."));
      this.close();
    }
  }

  #endWithHint(): void {
    this.#send(retryHint(RETRY_MS));
    this.close();
  }

  readonly #onStopping = () => this.#endWithHint();

  async #checkAccess(): Promise<void> {
    try {
      if (!(await this.#params.stillAllowed())) {
        this.close();
      }
    } catch {
      // The database is away: the next check decides.
    }
  }

  #every(milliseconds: number, action: () => void): void {
    this.#timers.push(setInterval(action, milliseconds));
  }

  #send(bytes: Uint8Array): void {
    if (!this.#closed) {
      this.#controller?.enqueue(bytes);
    }
  }
}
