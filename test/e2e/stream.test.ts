import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Event, EventFeed, type Frame } from "./event-feed.ts";
import { calls, held, reply, says, textBlock, toolUse } from "./scripted-model.ts";
import { customResult, customTool, isTurnEnd, isType, message, SessionDriver, textOf } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

let scripted: Target;
let session: SessionDriver;
const feeds: EventFeed[] = [];
beforeAll(async () => {
  scripted = await startTarget();
});
afterEach(() => {
  session.close();
  for (const feed of feeds.splice(0)) feed.close();
});
afterAll(() => scripted.close());

async function attach(options: Parameters<typeof EventFeed.open>[2] = {}): Promise<EventFeed> {
  const feed = await EventFeed.open(scripted.server, session.id, options);
  feeds.push(feed);
  return feed;
}

const idsOf = (frames: readonly Frame[]) => frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]));
const countTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);
const TEXT = "Grüße aus 東京, and a few more words to be streamed.";

/** A text in pieces; with a gate its end comes only when the test has seen what came before. */
function words(text: string, until?: Promise<unknown>) {
  const deltas = text.split(/(?<= )/).map((word) => JSON.stringify({ type: "text_delta", text: word }));
  return reply("end_turn", { start: '{"type":"text","text":""}', deltas, ...(until && { until }) });
}

test("F17: a quiet session answers at once with headers and a comment", async () => {
  session = await SessionDriver.open(scripted.server);
  const { headers } = session.feed.response;
  const first = await session.feed.frame(() => true);
  expect(headers.get("content-type")).toMatch(/^text\/event-stream/);
  expect(headers.get("cache-control")).toContain("no-cache");
  expect(headers.get("request-id")).toMatch(/^req_/);
  expect(first.raw).toBe(": ok");
});

test("previews carry the id of the final message, and their deltas add up to its text", async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  await scripted.script(words(TEXT, gate));
  session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("hello"));
  const start = await session.until(isType("event_start"));
  await session.until(isType("event_delta"));
  open();
  const final = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  const { events } = session.feed;
  const deltas = events.filter(isType("event_delta"));
  expect(start.event).toEqual({ type: "agent.message", id: final.id });
  expect(start).not.toHaveProperty("id");
  expect(start).not.toHaveProperty("processed_at");
  expect(events.filter(isType("event_start"))).toHaveLength(1);
  expect(deltas.length).toBeGreaterThan(0);
  expect(new Set(deltas.map((delta) => delta.event_id))).toEqual(new Set([final.id]));
  expect(new Set(deltas.map(({ delta }) => `${delta?.type} ${delta?.content.type}`))).toEqual(
    new Set(["content_delta text"]),
  );
  expect(textOf(final)).toBe(TEXT);
  const shown = deltas.map(({ delta }) => delta?.content.text ?? "").join("");
  expect(TEXT.startsWith(shown)).toBe(true);
  expect(events.findLastIndex(isType("event_delta"))).toBeLessThan(events.findIndex(isType("agent.message")));
});

test("previews have no id: and are never listed or replayed", async () => {
  await scripted.script(words(TEXT));
  session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.message" });
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  const previews = session.feed.frames.filter(({ name }) => name === "event_start" || name === "event_delta");
  expect(previews.every(({ id }) => id === null)).toBe(true);
  const replay = await attach({ query: "?event_deltas[]=agent.message", lastEventId: "0" });
  await replay.until(isTurnEnd);
  for (const events of [await session.list(), replay.events]) {
    expect(events.filter(({ type }) => type === "event_start" || type === "event_delta")).toEqual([]);
  }
});

test("without event_deltas[] there are no previews", async () => {
  await scripted.script(words(TEXT));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  expect(session.feed.events.filter(({ type }) => type.startsWith("event_"))).toEqual([]);
});

test("thinking is previewed by its start only, and only to who asked for it", async () => {
  const thinking = {
    start: '{"type":"thinking","thinking":"","signature":""}',
    deltas: [
      '{"type":"thinking_delta","thinking":"A secret thought."}',
      '{"type":"signature_delta","signature":"c2ln"}',
    ],
  };
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const text = { ...textBlock("Thought through."), until: gate };
  await scripted.script(reply("end_turn", thinking, text));
  session = await SessionDriver.open(scripted.server, { deltas: "?event_deltas[]=agent.thinking" });
  const other = await attach({ query: "?event_deltas[]=agent.message" });
  await session.send(message("think"));
  await other.until(isType("event_delta"));
  open();
  const final = await session.until(isType("agent.thinking"));
  await session.until(isTurnEnd);
  await other.until(isTurnEnd);
  const starts = session.feed.events.filter(isType("event_start"));
  expect(starts.map(({ event }) => event)).toEqual([{ type: "agent.thinking", id: final.id }]);
  expect(session.feed.events.filter(isType("event_delta"))).toEqual([]);
  expect(other.events.filter(isType("event_start")).map(({ event }) => event?.type)).toEqual(["agent.message"]);
  expect(JSON.stringify([session.feed.events, await session.list()])).not.toContain("A secret thought.");
});

test.each(["?event_deltas[]=agent.tool_use", "?event_deltas[]=", `?${"event_deltas[]=agent.message&".repeat(101)}`])(
  "a bad event_deltas[] is refused, case %#",
  async (query) => {
    session = await SessionDriver.open(scripted.server);
    const response = await scripted.server.request(`/v1/sessions/${session.id}/events/stream${query}`);
    const body = (await response.json()) as { error: { type: string; message: string } };
    expect(response.status).toBe(400);
    expect(body.error.type).toBe("invalid_request_error");
    expect(body.error.message).toContain("event_deltas");
  },
);

test("F45: every frame carries its name and the same type in its data, on one line", async () => {
  await scripted.script(
    calls(toolUse("toolu_1", "lookup", { q: "line\nbreak\r\n" })),
    words("two\nlines\r\nand\r one"),
  );
  session = await SessionDriver.open(scripted.server, {
    tools: [customTool("lookup")],
    deltas: "?event_deltas[]=agent.message&event_deltas[]=agent.thinking",
  });
  await session.send(message("first\n\nsecond\r\n\r\nthird"));
  await session.send(customResult(await session.until(isType("agent.custom_tool_use")), "found\n\nit"));
  const said = await session.until(isType("agent.message"));
  await session.until(isTurnEnd);
  expect(textOf(said)).toBe("two\nlines\r\nand\r one");
  for (const frame of session.feed.frames.filter(({ raw }) => !raw.startsWith(":") && !raw.startsWith("retry:"))) {
    expect(frame.name).not.toBeNull();
    expect(frame.data).not.toContain("\n");
    expect((JSON.parse(frame.data ?? "") as Event).type).toBe(frame.name);
  }
});

test("ids on the stream count up from 1 without a gap, in the order of arrival", async () => {
  await scripted.script(says("one"), says("two"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  await session.send(message("hello again"));
  await session.until(isTurnEnd);
  expect(idsOf(session.feed.frames)).toEqual(countTo((await session.list()).length));
});

test("Last-Event-ID replays what was missed exactly once, in order, and goes on live", async () => {
  await scripted.script(says("one"), says("two"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  const missed = (await session.list()).length;
  const resumed = await attach({ lastEventId: "3" });
  const fromStart = await attach({ query: "?after=0" });
  const fresh = await attach();
  await session.send(message("hello again"));
  for (const feed of [session.feed, fresh, resumed, fromStart]) await feed.until((event) => textOf(event) === "two");
  for (const feed of [session.feed, fresh, resumed, fromStart]) await feed.until(isTurnEnd);
  const all = countTo((await session.list()).length);
  expect(idsOf(fromStart.frames)).toEqual(all);
  expect(idsOf(resumed.frames)).toEqual(all.slice(3));
  expect(idsOf(fresh.frames)).toEqual(all.slice(missed));
});

test("cutting the stream again and again loses nothing and repeats nothing", async () => {
  await scripted.script(...Array.from({ length: 5 }, (_, index) => says(`answer ${index}`)));
  session = await SessionDriver.open(scripted.server);
  await session.send(...Array.from({ length: 5 }, (_, index) => message(`question ${index}`)));
  const received: number[] = [];
  for (let last = "0"; ; ) {
    const feed = await attach({ lastEventId: last });
    const stop = await feed.frame((frame) => frame.id !== null && Number(frame.id) >= Number(last) + 3);
    feed.close();
    const ids = idsOf(feed.frames).filter((id) => id <= Number(stop.id));
    received.push(...ids);
    last = stop.id ?? last;
    if (isTurnEnd(JSON.parse(stop.data ?? "") as Event)) break;
    if (received.length > 200) throw new Error("The stream repeats itself.");
    const left = (await session.list()).length - Number(last);
    if (left > 0 && left < 3 && (await session.status()) === "idle") break;
  }
  expect(received).toEqual(countTo(received.length));
});

test("a queued message is seen at once, and again under the same id, without id:, when its turn begins", async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  await scripted.script(held(gate, "slow"), says("second"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("one"));
  await session.until(isType("span.model_request_start"));
  const [queued] = await session.send(message("two"));
  const first = await session.feed.frame((frame) => frame.data?.includes(queued?.id ?? "?") ?? false);
  open();
  const again = await session.feed.frame((frame) => frame.data?.includes(queued?.id ?? "?") ?? false);
  await session.until(isTurnEnd);
  expect(JSON.parse(first.data ?? "")).toMatchObject({ id: queued?.id, type: "user.message", processed_at: null });
  expect(first.id).not.toBeNull();
  expect(JSON.parse(again.data ?? "")).toMatchObject({ id: queued?.id, type: "user.message" });
  expect((JSON.parse(again.data ?? "") as Event).processed_at).not.toBeNull();
  expect(again.id).toBeNull();
  expect(again.name).toBe("user.message");
});

test("what was seen on the stream is in a list made right after", async () => {
  await scripted.script(says("one"));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("hello"));
  for (let seen = await session.until(() => true); !isTurnEnd(seen); seen = await session.until(() => true)) {
    expect((await session.list()).map(({ id }) => id)).toContain(seen.id);
  }
});

test.each(["abc", "-1", "1.5"])(
  "a Last-Event-ID that is no position is refused or ignored, never an error of ours: %s",
  async (id) => {
    session = await SessionDriver.open(scripted.server);
    const abort = new AbortController();
    const response = await scripted.server.request(`/v1/sessions/${session.id}/events/stream`, {
      headers: { "last-event-id": id },
      signal: abort.signal,
    });
    abort.abort();
    expect([200, 400]).toContain(response.status);
  },
);
