import { type LedgerEvent, publicEvent } from "../ledger/event.ts";
import { eventsAfter, ledgerHead, stampedAmong } from "../ledger/read.ts";
import type { Product } from "../product.ts";
import type { LiveMessage, LiveSubscription, Preview } from "./live-channel.ts";
import { comment, frame, retryHint } from "./sse.ts";

/**
 * One attached stream.
 *
 * It subscribes to the live channel first and reads the ledger's head second, so nothing committed after the attach is
 * missed. From then on a wake-up, or at the latest the periodic look, makes it read the ledger from where it stands: the
 * channel decides how soon an event is shown, the ledger alone decides what and in which order.
 *
 * Previews are shown between ledger events: never before the start of their span, never after their message.
 */

/** Below every known proxy's idle limit (about 16 s, omnara-ai/omnara#421); the EventSource specification says 15 s. */
const KEEP_ALIVE_MS = 10_000;
/** How often the ledger is read when nothing woke the stream. */
const LOOK_RUNNING_MS = 200;
const LOOK_IDLE_MS = 2000;
const PAGE = 500;

export interface SessionStreamParams {
  readonly sessionId: string;
  /** Replay from after this ledger position; null shows only what comes after the attach. */
  readonly afterSeq: number | null;
  /** Which previews are wanted: `agent.message`, `agent.thinking`. */
  readonly previews: ReadonlySet<string>;
  /** How long the stream lives, in milliseconds; null for as long as the client likes. */
  readonly lifeMs: number | null;
  /** Asked every second; false ends the stream. */
  readonly stillAllowed: () => Promise<boolean>;
}

export function openSessionStream(
  product: Pick<Product, "database" | "live" | "log">,
  params: SessionStreamParams,
): ReadableStream<Uint8Array> {
  let stream: SessionStream | undefined;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stream = new SessionStream(product, params, controller);
        stream.run().catch((error: unknown) => {
          product.log.warn("A stream broke; the client will connect again.", {
            session_id: params.sessionId,
            error: (error as Error).name,
          });
          stream?.close();
        });
      },
      pull: () => stream?.resume(),
      cancel: () => stream?.close(),
    },
    { highWaterMark: 256 },
  );
}

class SessionStream {
  readonly #product: Pick<Product, "database" | "live" | "log">;
  readonly #params: SessionStreamParams;
  readonly #controller: ReadableStreamDefaultController<Uint8Array>;
  readonly #subscription: LiveSubscription;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #inbox: LiveMessage[] = [];
  /** Queued events that the client may have seen, or will be told of when they are stamped. */
  readonly #unstamped = new Set<number>();
  /** Events whose preview this client has been given from the start; the value is the next piece expected. */
  readonly #previewed = new Map<string, number>();
  #wake: (() => void) | undefined;
  #seq = 0;
  #idle = true;
  #look = false;
  #closed = false;

  constructor(
    product: Pick<Product, "database" | "live" | "log">,
    params: SessionStreamParams,
    controller: ReadableStreamDefaultController<Uint8Array>,
  ) {
    this.#product = product;
    this.#params = params;
    this.#controller = controller;
    this.#subscription = product.live.subscribe(params.sessionId, (message) => {
      if (message.type === "wake") {
        this.#look = true;
      } else if (this.#wants(message)) {
        this.#inbox.push(message);
      } else {
        return;
      }
      this.resume();
    });
  }

  async run(): Promise<void> {
    this.#send(comment("ok"));
    const head = await ledgerHead(this.#product.database, { sessionId: this.#params.sessionId });
    this.#seq = this.#params.afterSeq ?? head.lastSeq;
    for (const seq of head.queued.filter((queued) => queued <= this.#seq)) {
      this.#unstamped.add(seq);
    }
    this.#every(1000, () => void this.#checkAccess());
    this.#every(KEEP_ALIVE_MS, () => this.#send(comment("keep-alive")));
    if (this.#params.lifeMs !== null) {
      this.#every(this.#params.lifeMs, () => {
        this.#send(retryHint(0));
        this.close();
      });
    }
    this.#look = true;
    while (!this.#closed) {
      await this.#drain();
      await this.#nap();
    }
  }

  resume(): void {
    this.#wake?.();
  }

  close(): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#subscription.close();
    for (const timer of this.#timers) {
      clearInterval(timer);
    }
    this.resume();
    try {
      this.#controller.close();
    } catch {
      // Cancelled by the client: closed already.
    }
  }

  #wants(preview: Preview): boolean {
    const type = preview.event.type === "event_start" ? preview.event.event.type : "agent.message";
    return this.#params.previews.has(type);
  }

  /** Shows what is there: the ledger first, then the previews that the ledger has not overtaken. */
  async #drain(): Promise<void> {
    do {
      if (this.#look) {
        this.#look = false;
        await this.#showLedger();
      }
      const message = this.#inbox.shift();
      if (message?.type === "preview") {
        if (message.afterSeq > this.#seq) {
          await this.#showLedger();
        }
        this.#showPreview(message);
      }
    } while (!this.#closed && this.#hasRoom() && (this.#look || this.#inbox.length > 0));
  }

  async #showLedger(): Promise<void> {
    const sessionId = this.#params.sessionId;
    if (this.#unstamped.size > 0) {
      for (const event of await stampedAmong(this.#product.database, { sessionId, seqs: [...this.#unstamped] })) {
        this.#unstamped.delete(event.seq);
        this.#send(frame(event.type, publicEvent(event)));
      }
    }
    const events = await eventsAfter(this.#product.database, { sessionId, afterSeq: this.#seq, limit: PAGE });
    for (const event of events) {
      this.#show(event);
    }
    this.#look ||= events.length === PAGE;
  }

  #show(event: LedgerEvent): void {
    this.#seq = event.seq;
    if (event.processedAt === null) {
      this.#unstamped.add(event.seq);
    }
    this.#previewed.delete(event.id);
    this.#send(frame(event.type, publicEvent(event), event.seq));
    if (event.type === "session.status_running" || event.type === "session.status_idle") {
      this.#idle = event.type === "session.status_idle";
      this.#subscription.pollEvery(this.#idle ? LOOK_IDLE_MS : LOOK_RUNNING_MS);
    }
  }

  /** A preview is shown from its first piece on, without a gap, or not at all; the message itself comes in any case. */
  #showPreview(preview: Preview): void {
    const { event } = preview;
    const id = event.type === "event_start" ? event.event.id : event.event_id;
    // A start that comes late would follow its own message; the span's start must be shown and its message not yet.
    const expected =
      event.type === "event_start" && preview.afterSeq === this.#spanSeq(preview) ? 0 : this.#previewed.get(id);
    if (expected !== preview.piece) {
      this.#previewed.delete(id);
      return;
    }
    this.#previewed.set(id, preview.piece + 1);
    this.#send(frame(event.type, JSON.stringify(event)));
  }

  /** The position of the span that is open on this stream; a preview of an earlier one is too late. */
  #spanSeq(preview: Preview): number {
    return this.#seq <= preview.afterSeq ? preview.afterSeq : -1;
  }

  #hasRoom(): boolean {
    return (this.#controller.desiredSize ?? 0) > 0;
  }

  async #nap(): Promise<void> {
    if (this.#closed || (this.#hasRoom() && (this.#look || this.#inbox.length > 0))) {
      return;
    }
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(
        () => {
          this.#look = true;
          resolve();
        },
        this.#idle ? LOOK_IDLE_MS : LOOK_RUNNING_MS,
      );
    });
    clearTimeout(timer);
    this.#wake = undefined;
  }

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
      this.#controller.enqueue(bytes);
    }
  }
}
