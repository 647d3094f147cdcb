import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
}

export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a scripted answer may say instead of a reply: cut the connection. */
export type Answer = Reply | "hang up";

type Event = { readonly type: string; readonly id: string } & Readonly<Record<string, unknown>>;

interface Item {
  readonly id: string;
  readonly type: string;
  readonly sessionId: string;
  readonly secret: string | null;
  state: string;
  lastHeartbeat: string | null;
}

/**
 * Plays the server's side of the worker protocol: work queue, leases, events, streams. A test may script single
 * answers with `next`, and reads from `requests` what the worker did.
 */
export class ContractServer {
  readonly requests: SeenRequest[] = [];
  readonly items: Item[] = [];
  readonly sessions = new Map<string, { status: string; readonly events: Event[] }>();
  ttlSeconds = 60;
  pageSize = 1000;
  /** What heartbeats say from now on, whatever the item's state. */
  heartbeatState: string | null = null;
  readonly #server: Server;
  readonly #streams = new Map<string, Set<ServerResponse>>();
  readonly #scripted: { readonly call: string; readonly answer: Answer }[] = [];
  readonly #waiting = new Set<() => void>();
  #beats = 0;
  #ids = 0;

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async start(): Promise<ContractServer> {
    const server = new ContractServer();
    await new Promise<void>((resolve) => server.#server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => server.stop());
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  /** The next request whose `METHOD path` ends like `call` gets this answer. */
  next(call: string, answer: Answer): void {
    this.#scripted.push({ call, answer });
  }

  enqueue(sessionId: string, options: { readonly type?: string; readonly secret?: string | null } = {}): Item {
    this.session(sessionId);
    const item: Item = {
      id: `work_${this.items.length + 1}`,
      type: options.type ?? "session",
      sessionId,
      secret: options.secret === undefined ? secretFor(`token-${this.items.length + 1}`) : options.secret,
      state: "queued",
      lastHeartbeat: null,
    };
    this.items.push(item);
    for (const wake of this.#waiting) wake();
    return item;
  }

  session(id: string): { status: string; readonly events: Event[] } {
    const session = this.sessions.get(id) ?? { status: "running", events: [] };
    this.sessions.set(id, session);
    return session;
  }

  /** Adds an event to the history and to the attached streams. */
  append(sessionId: string, event: Readonly<Record<string, unknown>> & { readonly type: string }): Event {
    this.#ids += 1;
    const stored: Event = { id: `sevt_${this.#ids}`, processed_at: "2026-12-01T00:00:00Z", ...event };
    this.session(sessionId).events.push(stored);
    for (const stream of this.#streams.get(sessionId) ?? []) writeEvent(stream, stored);
    return stored;
  }

  streamCount(sessionId: string): number {
    return this.#streams.get(sessionId)?.size ?? 0;
  }

  endStreams(sessionId: string): void {
    for (const stream of this.#streams.get(sessionId) ?? []) stream.end();
    this.#streams.delete(sessionId);
  }

  /** The results that the worker has posted, in order. */
  results(sessionId: string): readonly Event[] {
    return this.session(sessionId).events.filter((event) => event.type === "user.tool_result");
  }

  calls(): readonly string[] {
    return this.requests.map((request) => `${request.method} ${request.path}`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const text = await readBody(request);
    const seen: SeenRequest = {
      method: request.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: text === "" ? null : JSON.parse(text),
    };
    this.requests.push(seen);
    const scripted = this.#scripted.findIndex(({ call }) => `${seen.method} ${seen.path}`.endsWith(call));
    if (scripted >= 0) {
      const [script] = this.#scripted.splice(scripted, 1);
      if (script?.answer === "hang up") request.socket.destroy();
      else if (script !== undefined) send(response, script.answer);
      return;
    }
    if (seen.path.endsWith("/events/stream")) this.#stream(seen.path.split("/")[3] ?? "", response);
    else send(response, await this.#answer(seen, response));
  }

  async #answer(seen: SeenRequest, response: ServerResponse): Promise<Reply> {
    const [, , kind, owner = "", , workId = "", verb] = seen.path.split("/");
    if (kind === "sessions") {
      if (!seen.path.endsWith("/events")) return ok({ id: owner, type: "session", status: this.session(owner).status });
      return seen.method === "POST" ? this.#send(owner, seen) : this.#list(owner, seen);
    }
    if (workId === "poll") return ok(await this.#poll(Number(seen.query.get("block_ms") ?? 0), response));
    const item = this.items.find(({ id }) => id === workId);
    if (item === undefined) return failure(404, "not_found_error");
    if (verb === "ack") item.state = "starting";
    if (verb === "stop" || verb === "fail") item.state = "stopped";
    if (verb === "heartbeat") return this.#heartbeat(item, seen.query.get("expected_last_heartbeat") ?? "");
    return ok(view(item));
  }

  #heartbeat(item: Item, expected: string): Reply {
    if (expected !== (item.lastHeartbeat ?? "NO_HEARTBEAT")) return failure(412, "invalid_request_error");
    this.#beats += 1;
    item.lastHeartbeat = `2026-12-01T00:00:00.${String(this.#beats).padStart(6, "0")}Z`;
    item.state = this.heartbeatState ?? "active";
    return ok({
      type: "work_heartbeat",
      last_heartbeat: item.lastHeartbeat,
      lease_extended: item.state === "active",
      state: item.state,
      ttl_seconds: this.ttlSeconds,
    });
  }

  async #poll(blockMs: number, response: ServerResponse): Promise<unknown> {
    const claim = () => {
      const item = this.items.find(({ state }) => state === "queued");
      if (item !== undefined) item.state = "polled";
      return item === undefined ? null : { ...view(item), secret: item.secret };
    };
    const now = claim();
    if (now !== null || blockMs === 0) return now;
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, blockMs);
      this.#waiting.add(wake);
      response.once("close", wake);
    });
    return response.destroyed ? null : claim();
  }

  #list(sessionId: string, { query }: SeenRequest): Reply {
    const types = query.getAll("types[]");
    const events = this.session(sessionId).events.filter(({ type }) => types.length === 0 || types.includes(type));
    const from = Number(query.get("page") ?? 0);
    const to = from + this.pageSize;
    return ok({ data: events.slice(from, to), next_page: to < events.length ? String(to) : null });
  }

  #send(sessionId: string, { body }: SeenRequest): Reply {
    const { events } = body as { readonly events: readonly { readonly type: string }[] };
    return ok({ data: events.map((event) => this.append(sessionId, event)) });
  }

  #stream(sessionId: string, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": attached\n\n");
    const streams = this.#streams.get(sessionId) ?? new Set();
    this.#streams.set(sessionId, streams.add(response));
    response.once("close", () => streams.delete(response));
  }
}

export function secretFor(token: string): string {
  return Buffer.from(JSON.stringify({ sessions_token: token })).toString("base64url");
}

export function failure(status: number, type: string, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, headers, body: { type: "error", error: { type, message: "scripted" }, request_id: "req_1" } };
}

function ok(body: unknown): Reply {
  return { status: 200, body };
}

function view(item: Item) {
  const { id, type, sessionId, state } = item;
  return {
    id,
    type: "work",
    environment_id: "env_1",
    state,
    data: { type, id: sessionId },
    metadata: {},
    secret: null,
  };
}

function send(response: ServerResponse, { status, body, headers }: Reply): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

function writeEvent(stream: ServerResponse, event: Event): void {
  stream.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}
