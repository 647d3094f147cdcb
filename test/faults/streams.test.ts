import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Event, EventFeed } from "../e2e/event-feed.ts";
import {
  calls,
  held,
  reply,
  type ScriptedServer,
  says,
  startScriptedServer,
  textBlock,
  toolUse,
} from "../e2e/scripted-model.ts";
import { createSession, isTurnEnd, isType, message, SessionDriver, toolset } from "../e2e/session-driver.ts";
import type { FakeReply } from "../fake-model/replies.ts";

let scripted: ScriptedServer;
let session: SessionDriver | undefined;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => {
  session?.close();
  session = undefined;
});
afterAll(() => scripted.close());

const DELTAS = "?event_deltas[]=agent.message&event_deltas[]=agent.thinking";

// A1

test.each([
  ["line feeds", '{\n  "command": "ls",\n  "note": "two\\nlines"\n}'],
  ["carriage returns", '{\r  "command": "ls",\r  "note": "two\\nlines"\r}'],
  ["both", '{\r\n  "command": "ls",\r\n  "note": "two\\nlines"\r\n}'],
  ["an empty line", '{\n\n  "command": "ls",\n\n  "note": "two\\nlines"}'],
])(
  "a tool input that the model wrote with %s reaches stream clients, at once and after a reconnect",
  async (_, input) => {
    await scripted.script(calls(toolUse("toolu_1", "bash", input)), says("Done."));
    session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
    await session.send(message("go"));
    const use = await session.until(isType("agent.tool_use"));
    expect(use.input).toEqual({ command: "ls", note: "two\nlines" });
    await session.until(isType("session.status_idle"));

    const again = await EventFeed.open(scripted.server, session.id, { lastEventId: "0" });
    expect(await again.until(isType("agent.tool_use"))).toEqual(use);
    await again.until(isType("session.status_idle"));
    again.close();

    // And every line of every frame is one that readers know.
    const lines = session.feed.frames.flatMap(({ raw }) => raw.split("\n"));
    expect(lines.filter((line) => !/^(id: \d+$|event: \S+$|data: |: )/.test(line))).toEqual([]);
    const { data } = await scripted.server.client.beta.sessions.events.list(session.id);
    expect(data.find(({ type }) => type === "agent.tool_use")).toMatchObject({
      input: { command: "ls", note: "two\nlines" },
    });
  },
);

test("the official client reads such a frame from the stream", async () => {
  await scripted.script(calls(toolUse("toolu_1", "bash", '{\n  "command": "ls"\n}')), says("Done."));
  session = await SessionDriver.open(scripted.server, { tools: [toolset()] });
  const stream = await scripted.server.client.beta.sessions.events.stream(session.id);
  await session.send(message("go"));
  const seen: string[] = [];
  for await (const event of stream) {
    seen.push(event.type);
    if (event.type === "agent.tool_use") {
      expect(event.input).toEqual({ command: "ls" });
    }
    if (event.type === "session.status_idle") break;
  }
  expect(seen).toContain("agent.tool_use");
});

// A10

test("sixty HEAD requests take no stream's place: a GET after them is answered", async () => {
  const id = await createSession(scripted.server);
  for (const path of [`/v1/sessions/${id}/events/stream`, `/v1/sessions/${id}/events/stream?${DELTAS.slice(1)}`]) {
    const heads = await Promise.all(
      Array.from({ length: 60 }, () => scripted.server.request(path, { method: "HEAD" })),
    );
    expect(new Set(heads.map(({ status }) => status))).toEqual(new Set([200]));
    expect(heads[0]?.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  }
  const feed = await EventFeed.open(scripted.server, id);
  await feed.frame(({ raw }) => raw.startsWith(":"));
  feed.close();
});

test("sixty clients that hung up leave room for the next", async () => {
  const id = await createSession(scripted.server);
  const opened = async () => {
    const feed = await EventFeed.open(scripted.server, id).catch(() => null);
    feed?.close();
    return feed !== null;
  };
  for (let client = 0; client < 60; client += 1) {
    // A place is given back when the server hears of the hang-up, which is a moment after it.
    await expect.poll(opened, { timeout: 10_000 }).toBe(true);
  }
});

// A stream's headers are its promise: from then on nothing is missed.

test("what is committed after a stream was answered is shown, however slowly the stream found its place", async () => {
  await scripted.script(says("Hello."));
  const id = await createSession(scripted.server);
  const { database } = scripted.server.product;
  const query = database.query.bind(database);
  const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The first look at where this session's ledger ends is slow.
  database.query = async (text, values) => {
    if (text.includes("last_seq") && values?.includes(id)) {
      database.query = query;
      reached.resolve();
      await gate.promise;
    }
    return query(text, values);
  };
  let answered = false;
  const opening = EventFeed.open(scripted.server, id);
  void opening.then(() => {
    answered = true;
  });
  await reached.promise;
  // Time enough, in answers of the same server, for the stream's headers to come before it knows its place.
  for (let n = 0; n < 20; n += 1) await (await scripted.server.request("/healthz")).text();
  const post = async () => {
    const response = await scripted.server.request(`/v1/sessions/${id}/events`, { json: { events: [message("hi")] } });
    expect(response.status).toBe(200);
  };
  const early = answered;
  if (early) await post();
  gate.resolve();
  const feed = await opening;
  if (!early) await post();

  await feed.until(isType("user.message"));
  await feed.until(isTurnEnd);
  feed.close();
});

// A14

/** A text in pieces; the pieces after the first are held back until the promise settles. */
function slowly(until: Promise<unknown>, ...pieces: readonly string[]): FakeReply {
  const [first = "", ...rest] = pieces;
  const whole = reply("end_turn", { ...textBlock(first), until });
  const end = whole.steps.findIndex((step) => "data" in step && step.data.includes("content_block_stop"));
  const deltas = rest.map((text) => ({
    data: JSON.stringify({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
  }));
  return { ...whole, steps: [...whole.steps.slice(0, end), ...deltas, ...whole.steps.slice(end)] };
}

const isPreview = (event: Event) => event.type === "event_start" || event.type === "event_delta";

/** No preview stands anywhere but between the start and the end of its span, before its message. */
function expectPreviewsInSpans(events: readonly Event[]): void {
  let open = false;
  let message = false;
  const outside: string[] = [];
  for (const event of events) {
    if (event.type === "span.model_request_start") [open, message] = [true, false];
    if (event.type === "span.model_request_end") open = false;
    if (event.type === "agent.message") message = true;
    if (isPreview(event) && (!open || message)) outside.push(event.type);
  }
  expect(outside).toEqual([]);
}

test("a message that is posted while the model thinks does not take the previews of the answer away", async () => {
  const gate = Promise.withResolvers<void>();
  const answer = reply("end_turn", textBlock("Once upon a time"));
  const [opening, ...rest] = answer.steps;
  await scripted.script(
    { ...answer, steps: [...(opening ? [opening] : []), { until: gate.promise }, ...rest] },
    says("Second."),
  );
  session = await SessionDriver.open(scripted.server, { deltas: DELTAS });
  await session.send(message("first"));
  await session.until(isType("span.model_request_start"));
  const [second] = await session.send(message("second"));
  await session.until(({ id }) => id === second?.id);
  gate.resolve();

  const start = await session.until(isType("event_start"));
  const delta = await session.until(isType("event_delta"));
  const told = await session.until(isType("agent.message"));

  expect([start.event?.id, delta.event_id, delta.delta?.content.text]).toEqual([told.id, told.id, "Once upon a time"]);
  await session.until(isTurnEnd);
  expectPreviewsInSpans(session.feed.events);
});

test("after an interrupt no preview follows the end of its span, though the provider writes on", async () => {
  const gate = Promise.withResolvers<void>();
  await scripted.script(slowly(gate.promise, "Once ", "upon ", "a ", "time"), says("Something else."));
  session = await SessionDriver.open(scripted.server, { deltas: DELTAS });
  await session.send(message("tell a story"));
  await session.until(isType("event_delta"));
  await session.send({ type: "user.interrupt" });
  await session.until(isTurnEnd);
  gate.resolve();
  await session.send(message("something else"));
  await session.until(isType("agent.message"));
  await session.until(isTurnEnd);

  expectPreviewsInSpans(session.feed.events);
  const deltas = session.feed.events.filter(isType("event_delta")).map((event) => event.delta?.content.text);
  // An answer that comes whole may be told without a preview.
  expect(deltas.filter((text) => text !== "Something else.")).toEqual(["Once "]);
});

test("previews that are late are shown to nobody: neither after their message nor after their span", async () => {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "Hello."));
  session = await SessionDriver.open(scripted.server, { deltas: DELTAS });
  await session.send(message("go"));
  const { live } = scripted.server.product;
  const span = await session.until(isType("span.model_request_start"));
  const start = await session.until(isType("event_start"));
  const frame = session.feed.frames.find(({ data }) => data?.includes(span.id));
  gate.resolve();
  await session.until(isTurnEnd);

  const late = { threadId: "sthr_any", afterSeq: Number(frame?.id), type: "preview" } as const;
  await live.publish(session.id, {
    ...late,
    piece: 0,
    event: { type: "event_start", event: { type: "agent.message", id: start.event?.id ?? "" } },
  });
  await live.publish(session.id, {
    ...late,
    piece: 0,
    event: { type: "event_start", event: { type: "agent.thinking", id: "sevt_late" } },
  });
  await scripted.script(says("Again."));
  await session.send(message("again"));
  await session.until(isType("agent.message"));
  await session.until(isTurnEnd);

  expect(session.feed.events.filter(isType("event_start")).map((event) => event.event?.type)).toEqual([
    "agent.message",
    "agent.message",
  ]);
  expectPreviewsInSpans(session.feed.events);
});
