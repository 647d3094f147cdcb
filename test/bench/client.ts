import { createParser } from "eventsource-parser";
import { KEY } from "./server-process.ts";

/** A client as thin as can be, so that what is measured is the server. */
export class BenchClient {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async post<T>(target: string, body: unknown): Promise<T> {
    const response = await fetch(`${this.#url}${target}`, {
      method: "POST",
      headers: { "x-api-key": KEY, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!response.ok) {
      throw new Error(`${target}: ${response.status} ${await response.text()}`);
    }
    return (await response.json()) as T;
  }

  async get<T>(target: string): Promise<T> {
    const response = await fetch(`${this.#url}${target}`, { headers: { "x-api-key": KEY } });
    if (!response.ok) {
      throw new Error(`${target}: ${response.status} ${await response.text()}`);
    }
    return (await response.json()) as T;
  }

  async session(environmentId: string, tools: readonly unknown[]): Promise<BenchSession> {
    const agent = await this.post<{ id: string }>("/v1/agents", { name: "Bench", model: "bench", tools });
    const session = await this.post<{ id: string }>("/v1/sessions", { agent: agent.id, environment_id: environmentId });
    const aborter = new AbortController();
    const response = await fetch(`${this.#url}/v1/sessions/${session.id}/events/stream`, {
      headers: { "x-api-key": KEY },
      signal: aborter.signal,
    });
    return new BenchSession(this, session.id, response, aborter);
  }
}

/** One session with its stream attached. */
export class BenchSession {
  readonly id: string;
  readonly #client: BenchClient;
  readonly #aborter: AbortController;
  #idle: ((instant: number) => void) | undefined;
  #interrupted: ((instant: number) => void) | undefined;

  constructor(client: BenchClient, id: string, response: Response, aborter: AbortController) {
    this.id = id;
    this.#client = client;
    this.#aborter = aborter;
    void this.#read(response).catch(() => {});
  }

  async #read(response: Response): Promise<void> {
    const parser = createParser({
      onEvent: (event) => {
        if (event.event === "user.interrupt") {
          this.#interrupted?.(performance.now());
        }
        if (event.event === "session.status_idle" && !event.data.includes('"requires_action"')) {
          this.#idle?.(performance.now());
        }
      },
    });
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      parser.feed(decoder.decode(chunk as Uint8Array, { stream: true }));
    }
  }

  /** Milliseconds from the POST to the turn's last event on the stream. */
  async turn(text: string): Promise<number> {
    const idle = new Promise<number>((resolve) => {
      this.#idle = resolve;
    });
    const start = performance.now();
    await this.#client.post(`/v1/sessions/${this.id}/events`, {
      events: [{ type: "user.message", content: [{ type: "text", text }] }],
    });
    return (await idle) - start;
  }

  /** Milliseconds from the POST of an event that starts nothing to its frame on the stream. */
  async interrupt(): Promise<number> {
    const shown = new Promise<number>((resolve) => {
      this.#interrupted = resolve;
    });
    const start = performance.now();
    await this.#client.post(`/v1/sessions/${this.id}/events`, { events: [{ type: "user.interrupt" }] });
    return (await shown) - start;
  }

  close(): void {
    this.#aborter.abort();
  }
}
