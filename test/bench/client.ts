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

/** One call of a worker's tool: instants in milliseconds since the epoch. */
export interface ToolTimes {
  readonly publishedAt: number;
  readonly resultAt: number;
  readonly output: string;
}

/** One session with its stream attached. */
export class BenchSession {
  readonly id: string;
  readonly #client: BenchClient;
  readonly #aborter: AbortController;
  #idle: ((instant: number) => void) | undefined;
  #interrupted: ((instant: number) => void) | undefined;
  #publishedAt = 0;
  #result: ToolTimes | undefined;

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
        if (event.event === "agent.tool_use") {
          const { processed_at } = JSON.parse(event.data) as { processed_at: string };
          this.#publishedAt = Date.parse(processed_at);
        }
        if (event.event === "user.tool_result") {
          const resultAt = performance.timeOrigin + performance.now();
          const { content } = JSON.parse(event.data) as { content: { text: string }[] };
          this.#result = { publishedAt: this.#publishedAt, resultAt, output: content[0]?.text ?? "" };
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

  /** A turn with one call of a worker's tool. */
  async toolTurn(text: string): Promise<ToolTimes> {
    this.#result = undefined;
    await this.turn(text);
    if (this.#result === undefined) throw new Error("The turn had no call.");
    return this.#result;
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
