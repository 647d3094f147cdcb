/** What a client sees on a stream, byte by byte: a reader of our own, so that no library hides a malformed frame. */
/** What the drivers need of a server: requests under a good key. */
export interface Requests {
  /** How long a test waits for what never comes, in milliseconds; no test asserts on time. 15 seconds by default. */
  readonly patienceMs?: number;
  request(target: string, init?: RequestInit & { readonly json?: unknown }): Promise<Response>;
}

/** An event of the contract. The fields are those that the tests look at. */
export interface Event {
  readonly id: string;
  readonly type: string;
  readonly processed_at: string | null;
  readonly content?: readonly { readonly type: string; readonly text: string }[];
  readonly name?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly tool_use_id?: string;
  readonly custom_tool_use_id?: string;
  readonly is_error?: boolean | null;
  readonly evaluated_permission?: string;
  readonly evaluation?: unknown;
  readonly stop_reason?: { readonly type: string; readonly event_ids?: readonly string[] };
  readonly stop_details?: unknown;
  readonly error?: {
    readonly type: string;
    readonly message: string;
    readonly retry_status: { readonly type: string };
  };
  readonly model_request_start_id?: string;
  /** Of previews: `event_start` and `event_delta`. */
  readonly event?: { readonly type: string; readonly id: string };
  readonly event_id?: string;
  readonly delta?: {
    readonly type: string;
    readonly index: number;
    readonly content: { readonly type: string; readonly text: string };
  };
}

/** One block of the stream between blank lines. */
export interface Frame {
  readonly raw: string;
  readonly id: string | null;
  readonly name: string | null;
  readonly data: string | null;
}

const PATIENCE_MS = 30_000;

export class EventFeed {
  readonly response: Response;
  readonly frames: Frame[] = [];
  #position = 0;
  #closed = false;
  #failure: unknown;
  #wake: (() => void)[] = [];
  readonly #abort: AbortController;
  readonly #patienceMs: number;

  private constructor(response: Response, abort: AbortController, patienceMs: number) {
    this.response = response;
    this.#abort = abort;
    this.#patienceMs = patienceMs;
    void this.#read()
      .catch((error: unknown) => {
        this.#failure = error;
      })
      .finally(() => {
        this.#closed = true;
        this.#notify();
      });
  }

  static async open(
    server: Requests,
    sessionId: string,
    options: { readonly query?: string; readonly lastEventId?: string } = {},
  ): Promise<EventFeed> {
    const abort = new AbortController();
    const response = await server.request(`/v1/sessions/${sessionId}/events/stream${options.query ?? ""}`, {
      signal: abort.signal,
      headers: options.lastEventId === undefined ? {} : { "last-event-id": options.lastEventId },
    });
    if (response.status !== 200) throw new Error(`The stream answered ${response.status}: ${await response.text()}`);
    return new EventFeed(response, abort, server.patienceMs ?? PATIENCE_MS);
  }

  /** The next event that matches, after the one that was awaited last. */
  async until(matches: (event: Event) => boolean): Promise<Event> {
    return eventOf(await this.frame((frame) => frame.data !== null && matches(eventOf(frame))));
  }

  /** The next frame that matches. */
  async frame(matches: (frame: Frame) => boolean): Promise<Frame> {
    const deadline = AbortSignal.timeout(this.#patienceMs);
    deadline.addEventListener("abort", () => this.#notify(), { once: true });
    for (;;) {
      for (let frame = this.frames[this.#position]; frame; frame = this.frames[this.#position]) {
        this.#position += 1;
        if (matches(frame)) return frame;
      }
      if (deadline.aborted || this.#closed) {
        const seen = this.frames.map(({ name }) => name ?? "(comment)").join(", ");
        const why = this.#closed ? "The stream ended" : "Waited in vain";
        throw new Error(`${why}. Seen: ${seen}`, { cause: this.#failure });
      }
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  /** All events so far, previews included. */
  get events(): Event[] {
    return this.frames.filter((frame) => frame.data !== null).map(eventOf);
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(): Promise<void> {
    // Bytes that are no UTF-8 end the stream, and with it the test.
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let rest = "";
    for await (const chunk of this.response.body ?? []) {
      const blocks = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      this.frames.push(...blocks.filter((block) => block !== "").map(parse));
      this.#notify();
    }
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

function parse(raw: string): Frame {
  const field = (name: string) => {
    const lines = raw.split("\n").filter((line) => line.startsWith(`${name}:`));
    return lines.length === 0 ? null : lines.map((line) => line.slice(name.length + 1).replace(/^ /, "")).join("\n");
  };
  return { raw, id: field("id"), name: field("event"), data: field("data") };
}

function eventOf(frame: Frame): Event {
  return JSON.parse(frame.data ?? "null") as Event;
}
