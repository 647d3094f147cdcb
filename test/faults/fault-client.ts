/**
 * A client as a careful application writes it: what was not acknowledged is sent again under the same
 * `Idempotency-Key`, a stream that broke is opened again from its last event.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Event } from "../e2e/event-feed.ts";
import { FAULT_KEY } from "./fault-machine.ts";

/** Where the server is just now; waits while it is away, and rejects when it never comes back. */
export type Address = () => Promise<string>;

const RETRY_MS = 25;
const HEADERS = { authorization: `Bearer ${FAULT_KEY}` };

export interface Posted {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: the fields differ by route, and the tests name what they look at
  readonly body: any;
}

/** Posts until there is an answer that no repeat can change. */
export async function post(address: Address, target: string, body: object): Promise<Posted> {
  const key = randomUUID();
  for (;;) {
    const base = await address();
    try {
      const response = await fetch(`${base}${target}`, {
        method: "POST",
        headers: { ...HEADERS, "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify(body),
      });
      const answer = { status: response.status, body: await response.json() };
      if (response.status < 500 && response.status !== 429) return answer;
    } catch {
      // The server is gone, and whether it took the request is unknown.
    }
    await sleep(RETRY_MS);
  }
}

export async function create(address: Address, target: string, body: object): Promise<string> {
  const made = await post(address, target, body);
  if (made.status !== 200) throw new Error(`${target} answered ${made.status}: ${JSON.stringify(made.body)}`);
  return made.body.id;
}

export class FaultSession {
  readonly id: string;
  /** By position in the ledger, as the stream showed them. */
  readonly events: Event[] = [];
  /** What a stream must never do. */
  readonly complaints: string[] = [];
  readonly #address: Address;
  readonly #closed = new AbortController();
  #wake: (() => void)[] = [];

  constructor(address: Address, id: string) {
    this.#address = address;
    this.id = id;
    void this.#follow().catch((error: unknown) => this.complaints.push(`the stream is given up: ${String(error)}`));
  }

  static async open(address: Address, environmentId: string, tools: readonly object[]): Promise<FaultSession> {
    const agent = await create(address, "/v1/agents", { name: "Faulty", model: "fault-1", tools });
    return new FaultSession(address, await create(address, "/v1/sessions", { agent, environment_id: environmentId }));
  }

  post(...events: readonly object[]): Promise<Posted> {
    return post(this.#address, `/v1/sessions/${this.id}/events`, { events });
  }

  /** Sends what must be accepted; the ids. */
  async send(...events: readonly object[]): Promise<string[]> {
    const answer = await this.post(...events);
    if (answer.status !== 200) throw new Error(`Not accepted: ${answer.status} ${JSON.stringify(answer.body)}`);
    return (answer.body.data as Event[]).map(({ id }) => id);
  }

  /** Resolves when the events so far say so; false when that took too long. */
  async until(holds: (events: readonly Event[]) => boolean, patienceMs: number): Promise<boolean> {
    const deadline = AbortSignal.timeout(patienceMs);
    while (!holds(this.events)) {
      if (deadline.aborted) return false;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake.push(resolve);
      await Promise.race([promise, sleep(250, undefined, { ref: false })]);
    }
    return true;
  }

  /** The calls that wait for this person's word, by what the newest idle names. */
  asked(): Event[] {
    const last = this.events.at(-1);
    const named = last?.type === "session.status_idle" ? (last.stop_reason?.event_ids ?? []) : [];
    const confirmed = new Set(
      this.events.filter(({ type }) => type === "user.tool_confirmation").map((e) => e.tool_use_id),
    );
    return this.events.filter(
      (event) => named.includes(event.id) && event.evaluated_permission === "ask" && !confirmed.has(event.id),
    );
  }

  /** Everything that the list shows. */
  async list(): Promise<Event[]> {
    const events: Event[] = [];
    for (let page = ""; ; ) {
      const response = await fetch(`${await this.#address()}/v1/sessions/${this.id}/events?limit=100${page}`, {
        headers: HEADERS,
      });
      const body = (await response.json()) as { data: Event[]; next_page: string | null };
      events.push(...body.data);
      if (body.next_page === null) return events;
      page = `&page=${encodeURIComponent(body.next_page)}`;
    }
  }

  close(): void {
    this.#closed.abort();
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const base = await this.#address();
      try {
        const response = await fetch(`${base}/v1/sessions/${this.id}/events/stream`, {
          headers: { ...HEADERS, "last-event-id": String(this.events.length) },
          signal,
        });
        if (response.status !== 200 || response.body === null)
          throw new Error(`The stream answered ${response.status}.`);
        const frames = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
        for await (const frame of frames) this.#take(frame.id, JSON.parse(frame.data) as Event);
      } catch {
        // Opened again below.
      }
      await sleep(RETRY_MS, undefined, { ref: false });
    }
  }

  #take(id: string | undefined, event: Event): void {
    if (id === undefined || id === "") {
      // A queued event that was taken up is shown again, under its old name and no position.
      const known = this.events.findIndex((one) => one.id === event.id);
      if (known >= 0) this.events[known] = event;
    } else if (Number(id) === this.events.length + 1) {
      this.events.push(event);
    } else {
      this.complaints.push(`the stream showed position ${id} after ${this.events.length}`);
    }
    for (const wake of this.#wake.splice(0)) wake();
  }
}
