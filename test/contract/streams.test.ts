import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { EventFeed, type Event as StreamEvent } from "../e2e/event-feed.ts";
import { held, reply, type ScriptedServer, says, startScriptedServer, textBlock } from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectError, ids } from "./api.ts";
import { isIdle, list, message, newSession, runTurn, send, types, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const create = () => newSession(api, scripted.server.environmentId);
const open = (session: Body, options: Parameters<typeof EventFeed.open>[2] = {}) =>
  EventFeed.open(scripted.server, session.id, options);
const ended = ({ type }: StreamEvent) => type === "session.status_idle";
const path = (session: Body, query = "") => `/v1/sessions/${session.id}/events/stream${query}`;
/** What a stream shows up to the idle that ends the turn. */
const untilIdle = async (feed: EventFeed) => {
  await feed.until(ended);
  return feed.events;
};

describe("opening", () => {
  verifies("streams:open", async () => {
    const feed = await open(await create());
    expect(feed.response.headers.get("content-type")).toMatch(/^text\/event-stream/);
    expect(feed.response.headers.get("cache-control")).toMatch(/no-cache|no-store/);
    expect(feed.response.headers.get("request-id")).toMatch(/^req_/);
    expect((await feed.frame(() => true)).raw).toMatch(/^:/);
    feed.close();
  });

  for (const accept of ["application/json", "text/event-stream", "*/*", "text/html"]) {
    verifies("streams:accept", accept, async () => {
      const session = await create();
      const abort = new AbortController();
      const response = await scripted.server.request(path(session), { headers: { accept }, signal: abort.signal });
      expect([response.status, response.headers.get("content-type")]).toEqual([
        200,
        expect.stringMatching(/^text\/event-stream/),
      ]);
      abort.abort();
    });
  }

  verifies("streams:unknown-session", async () => {
    expectError(await api.get("/v1/sessions/sesn_nothing/events/stream"), 404);
  });

  verifies("streams:from-now", async () => {
    const session = await create();
    const before = await runTurn(api, session, "before");
    const feed = await open(session);
    await send(api, session, message("after"));
    const seen = await untilIdle(feed);
    expect(seen.filter(({ id }) => ids(before).includes(id))).toEqual([]);
    expect(JSON.stringify(seen[0])).toContain("after");
    feed.close();
  });

  verifies("streams:attach", async () => {
    for (let round = 0; round < 10; round += 1) {
      const session = await create();
      const feed = await open(session);
      const stored = await send(api, session, message("at once"));
      expect((await feed.until(() => true)).id).toBe(stored[0]?.id);
      feed.close();
    }
  });
});

describe("frames", () => {
  verifies("streams:frames", async () => {
    const session = await create();
    const feed = await open(session, { query: "?event_deltas[]=agent.message" });
    await send(api, session, message("hello"));
    await untilIdle(feed);
    feed.close();
    for (const frame of feed.frames.filter(({ data }) => data !== null)) {
      expect(frame.raw).toMatch(/^(id: \d+\n)?event: [a-z_.]+\ndata: \{.*\}$/);
      expect(JSON.parse(frame.data ?? "")).toMatchObject({ type: frame.name });
    }
  });

  verifies("streams:position", async () => {
    const session = await create();
    const feed = await open(session);
    await runTurn(api, session, "one");
    await runTurn(api, session, "two");
    await feed.until(ended);
    await feed.until(ended);
    feed.close();
    const positions = feed.frames.flatMap(({ id }) => (id === null ? [] : [Number(id)]));
    expect(positions).toEqual(positions.map((_, n) => n + 1));
    const first = new Map(
      feed.frames.flatMap(({ id, data }) => (id === null ? [] : [[JSON.parse(data ?? "").id, id] as const])),
    );
    expect([...first.keys()].toSorted()).toEqual(ids(await list(api, session)).toSorted());
  });

  const awkward = "a\nb\r\nc\rd\u2028e\u2029f\u0085g\n\ndata: injected\n\nid: 999\nevent: evil";
  verifies("streams:line-breaks", async () => {
    await scripted.script(says(awkward));
    const session = await create();
    const feed = await open(session);
    await send(api, session, message(awkward));
    const seen = await untilIdle(feed);
    feed.close();
    await scripted.script();
    const texts = seen.flatMap(({ content }) => (content ?? []).map(({ text }) => text));
    // The message is shown twice: queued, and with its stamp.
    expect(new Set(texts)).toEqual(new Set([awkward]));
    for (const frame of feed.frames) expect(frame.raw.split(/\r\n|\r|\n/).length).toBeLessThanOrEqual(3);
    expect(feed.frames.map(({ name }) => name)).not.toContain("evil");
  });

  verifies("streams:stamped-again", async () => {
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, "First."), says("Second."));
    const session = await create();
    const feed = await open(session);
    await send(api, session, message("first"));
    await feed.until(({ type }) => type === "span.model_request_start");
    const [queued] = await send(api, session, message("second"));
    gate.resolve();
    await feed.until(({ content }) => content?.[0]?.text === "Second.");
    feed.close();
    const shown = feed.frames.filter(({ data }) => data !== null && JSON.parse(data).id === queued?.id);
    expect(shown.map(({ id, data }) => [id === null, JSON.parse(data ?? "").processed_at === null])).toEqual([
      [false, true],
      [true, false],
    ]);
    await until(api, session, isIdle());
    await scripted.script();
  });
});

describe("replay", () => {
  for (const [id, how] of [
    ["streams:replay", (position: number) => ({ lastEventId: String(position) })],
    ["streams:after", (position: number) => ({ query: `?after=${position}` })],
  ] as const) {
    const prove = async () => {
      const session = await create();
      const whole = await open(session);
      await runTurn(api, session, "one");
      await runTurn(api, session, "two");
      await whole.until(ended);
      await whole.until(ended);
      whole.close();
      const shown = (feed: EventFeed) =>
        feed.frames.filter((frame) => frame.id !== null).map((frame) => [frame.id, JSON.parse(frame.data ?? "").id]);
      const all = shown(whole);
      for (const position of [0, 1, 5, all.length - 1]) {
        const feed = await open(session, how(position));
        while (shown(feed).length < all.length - position) await feed.frame(() => true);
        await sleep(50);
        feed.close();
        expect(shown(feed)).toEqual(all.slice(position));
      }
      const live = await open(session, how(all.length));
      await send(api, session, message("three"));
      expect(JSON.stringify(await live.until(() => true))).toContain("three");
      live.close();
    };
    if (id === "streams:replay") verifies("streams:replay", prove);
    else verifies("streams:after", prove);
  }

  verifies("streams:replay", "while the turn runs: no gap, nothing twice", async () => {
    const session = await create();
    const first = await open(session);
    await send(api, session, message("one"), message("two"), message("three"));
    const cut = await first.frame(({ id }) => id === "6");
    first.close();
    const second = await open(session, { lastEventId: cut.id ?? "" });
    await second.until(ended);
    second.close();
    const positions = [...first.frames, ...second.frames].flatMap(({ id }) => (id === null ? [] : [Number(id)]));
    const seen = positions
      .slice(0, positions.indexOf(6) + 1)
      .concat(second.frames.flatMap(({ id }) => (id === null ? [] : [Number(id)])));
    expect(seen).toEqual(seen.map((_, n) => n + 1));
  });

  for (const position of ["x", "-1", "1.5"]) {
    verifies("streams:bad-position", `after=${position}`, async () => {
      expectError(await api.get(path(await create(), `?after=${position}`)), 400, "after");
    });
    verifies("streams:bad-position", `Last-Event-ID: ${position}`, async () => {
      expectError(await api.get(path(await create()), { "last-event-id": position }), 400, /last-event-id/i);
    });
  }
});

describe("previews", () => {
  const words = "Once upon a time there was a mango that kept every promise it made.";
  const withPreviews = async (query: string) => {
    // Held at its end: previews may be shed under load, and an answer that is there at once leaves no time for them.
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, words));
    const session = await create();
    const feed = await open(session, { query });
    await send(api, session, message("tell"));
    if (query.includes("agent.message")) await feed.until(({ type }) => type === "event_delta");
    gate.resolve();
    const seen = await untilIdle(feed);
    feed.close();
    await scripted.script();
    return { seen, feed };
  };
  const text = (events: readonly StreamEvent[]) =>
    events.flatMap(({ delta }) => (delta === undefined ? [] : [delta.content.text])).join("");

  verifies("streams:previews", async () => {
    const { seen, feed } = await withPreviews("?event_deltas[]=agent.message");
    const message1 = seen.find(({ type }) => type === "agent.message");
    const starts = seen.filter(({ type }) => type === "event_start");
    const deltas = seen.filter(({ type }) => type === "event_delta");
    expect(starts).toEqual([{ type: "event_start", event: { type: "agent.message", id: message1?.id } }]);
    for (const delta of deltas) {
      expect(delta).toEqual({
        type: "event_delta",
        event_id: message1?.id,
        delta: { type: "content_delta", index: 0, content: { type: "text", text: expect.any(String) } },
      });
    }
    expect(deltas.length).toBeGreaterThan(0);
    expect(words.startsWith(text(deltas))).toBe(true);
    const order = seen.map(({ type }) => type).filter((type) => /^(span|event|agent)/.test(type));
    expect([...new Set(order)]).toEqual([
      "span.model_request_start",
      "event_start",
      "event_delta",
      "agent.message",
      "span.model_request_end",
    ]);
    expect(order.lastIndexOf("event_delta")).toBeLessThan(order.indexOf("agent.message"));
    for (const frame of feed.frames.filter(({ name }) => name?.startsWith("event_"))) expect(frame.id).toBeNull();
  });

  verifies("streams:previews:thinking", async () => {
    const thinking = {
      start: JSON.stringify({ type: "thinking", thinking: "", signature: "" }),
      deltas: [
        JSON.stringify({ type: "thinking_delta", thinking: "Hm." }),
        JSON.stringify({ type: "signature_delta", signature: "abc" }),
      ],
    };
    await scripted.script(reply("end_turn", thinking, textBlock("Thought.")));
    const session = await create();
    const feed = await open(session, { query: "?event_deltas[]=agent.thinking" });
    await send(api, session, message("think"));
    const seen = await untilIdle(feed);
    feed.close();
    await scripted.script();
    const own = seen.find(({ type }) => type === "agent.thinking");
    expect(Object.keys(own ?? {}).toSorted()).toEqual(["id", "processed_at", "type"]);
    expect(seen.filter(({ type }) => type.startsWith("event_"))).toEqual([
      { type: "event_start", event: { type: "agent.thinking", id: own?.id } },
    ]);
  });

  verifies("streams:previews:opt-in", async () => {
    for (const query of ["", "?event_deltas[]=agent.thinking"]) {
      const { seen } = await withPreviews(query);
      expect(seen.filter(({ type }) => type.startsWith("event_"))).toEqual([]);
    }
  });
  verifies("streams:previews:opt-in", "they are never listed", async () => {
    await scripted.script(says(words));
    const session = await create();
    expect(types(await runTurn(api, session, "tell")).filter((type) => type.startsWith("event_"))).toEqual([]);
    await scripted.script();
  });

  verifies("streams:previews:bad", async () => {
    const session = await create();
    expectError(await api.get(path(session, "?event_deltas[]=user.message")), 400, "event_deltas");
    expectError(await api.get(path(session, "?event_deltas[]=agent.message&event_deltas[]=x")), 400, "event_deltas");
    const many = Array.from({ length: 101 }, () => "event_deltas[]=agent.message").join("&");
    expectError(await api.get(path(session, `?${many}`)), 400, "event_deltas");
  });
});
