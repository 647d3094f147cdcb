/** A session as an application drives it: over HTTP, with its stream open from the first moment. */
import { type Event, EventFeed, type Requests } from "./event-feed.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly data: readonly Event[];
  readonly error: { readonly type: string; readonly message: string } | undefined;
}

/** The six tools of the worker, allowed unless the test says otherwise. */
export const toolset = (...configs: readonly object[]) => ({ type: "agent_toolset_20260401", configs });
export const ask = (name: string) => ({ name, permission_policy: { type: "always_ask" } });
export const customTool = (name: string) => ({
  type: "custom",
  name,
  description: `The application's ${name}.`,
  input_schema: { type: "object", properties: { q: { type: "string" } } },
});
export const message = (text: string) => ({ type: "user.message", content: [{ type: "text", text }] });
export const confirmation = (use: Event, result: "allow" | "deny", more: object = {}) => ({
  type: "user.tool_confirmation",
  tool_use_id: use.id,
  result,
  ...more,
});
export const toolResult = (use: Event, text: string, more: object = {}) => ({
  type: "user.tool_result",
  tool_use_id: use.id,
  content: [{ type: "text", text }],
  ...more,
});
export const customResult = (use: Event, text: string) => ({
  type: "user.custom_tool_result",
  custom_tool_use_id: use.id,
  content: [{ type: "text", text }],
});

export const isType = (type: string) => (event: Event) => event.type === type;
export const isIdle = (reason: string) => (event: Event) =>
  event.type === "session.status_idle" && event.stop_reason?.type === reason;
export const isTurnEnd = isIdle("end_turn");

type Server = Requests & { readonly environmentId: string };

export class SessionDriver {
  readonly server: Server;
  readonly id: string;
  readonly feed: EventFeed;

  private constructor(server: Server, id: string, feed: EventFeed) {
    this.server = server;
    this.id = id;
    this.feed = feed;
  }

  static async open(server: Server, options: { tools?: readonly object[]; deltas?: string } = {}) {
    const id = await createSession(server, options.tools);
    return new SessionDriver(server, id, await EventFeed.open(server, id, { query: options.deltas ?? "" }));
  }

  /** The same session after a restart, its stream from the first event on. */
  static async resume(server: Server, id: string) {
    return new SessionDriver(server, id, await EventFeed.open(server, id, { lastEventId: "0" }));
  }

  async post(...events: readonly object[]): Promise<Answer> {
    return answerOf(await this.server.request(`/v1/sessions/${this.id}/events`, { json: { events } }));
  }

  /** Posts what must be accepted; the stored events. */
  async send(...events: readonly object[]): Promise<readonly Event[]> {
    const answer = await this.post(...events);
    if (answer.status !== 200) throw new Error(`Not accepted: ${answer.status} ${answer.text}`);
    return answer.data;
  }

  until(matches: (event: Event) => boolean): Promise<Event> {
    return this.feed.until(matches);
  }

  /** The next idle that names what it waits for, and the calls it names. */
  async untilAsked(): Promise<readonly Event[]> {
    const idle = await this.until(isIdle("requires_action"));
    const events = await this.list();
    return (idle.stop_reason?.event_ids ?? []).map((id) => {
      const use = events.find((event) => event.id === id);
      if (use === undefined) throw new Error(`The idle names ${id}, which is not listed.`);
      return use;
    });
  }

  async list(): Promise<Event[]> {
    return listEvents(this.server, this.id);
  }

  async status(): Promise<string> {
    const session = (await (await this.server.request(`/v1/sessions/${this.id}`)).json()) as { status: string };
    return session.status;
  }

  close(): void {
    this.feed.close();
  }
}

export async function createSession(server: Server, tools: readonly object[] = []): Promise<string> {
  const agent = await created(await server.request("/v1/agents", { json: { name: "Tester", model: "test-1", tools } }));
  const session = { agent, environment_id: server.environmentId };
  return created(await server.request("/v1/sessions", { json: session }));
}

/** Every event in the list's own order, page by page. */
export async function listEvents(server: Server, sessionId: string): Promise<Event[]> {
  const events: Event[] = [];
  let page = "";
  do {
    const response = await server.request(`/v1/sessions/${sessionId}/events?limit=100${page}`);
    const body = (await response.json()) as { data: Event[]; next_page: string | null };
    events.push(...body.data);
    page = body.next_page === null ? "" : `&page=${encodeURIComponent(body.next_page)}`;
  } while (page !== "");
  return events;
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const body = text === "" ? null : (JSON.parse(text) as { data?: Event[]; error?: { type: string; message: string } });
  return { status: response.status, headers: response.headers, text, data: body?.data ?? [], error: body?.error };
}

async function created(response: Response): Promise<string> {
  const body = (await response.json()) as { id?: string };
  if (body.id === undefined) throw new Error(`Not created: ${response.status} ${JSON.stringify(body)}`);
  return body.id;
}

export const textOf = (event: Event | undefined): string => (event?.content ?? []).map((block) => block.text).join("");
