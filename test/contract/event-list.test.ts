import { afterAll, beforeAll, expect } from "vitest";
import { EventFeed } from "../e2e/event-feed.ts";
import { held, type ScriptedServer, says, startScriptedServer } from "../e2e/scripted-model.ts";
import { type Api, allPages, apiOf, type Body, expectError, ids, TIME } from "./api.ts";
import { isIdle, list, message, newSession, runTurn, send, types, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
/** A session with three turns behind it, and its ledger. */
let session: Body;
let events: readonly Body[];
beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
  await scripted.script(says("One."), says("Two."), says("Three."));
  session = await newSession(api, scripted.server.environmentId);
  for (const value of ["first", "second", "third"]) events = await runTurn(api, session, value);
});
afterAll(() => scripted.close());

const path = () => `/v1/sessions/${session.id}/events`;
const page = (query: string, cursor: string | null = null) =>
  api.read(`${path()}?${query}${cursor === null ? "" : `&page=${encodeURIComponent(cursor)}`}`);

/** A running session with two queued messages; `finish` lets it end. */
async function queued() {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "Answer 1."), says("Answer 2."), says("Answer 3."));
  const own = await newSession(api, scripted.server.environmentId);
  await send(api, own, message("question 1"));
  await until(api, own, ({ type }) => type === "span.model_request_start");
  await send(api, own, message("question 2"), message("question 3"));
  return {
    own,
    finish: async () => {
      gate.resolve();
      return until(api, own, (event) => JSON.stringify(event["content"] ?? "").includes("Answer 3."));
    },
  };
}

verifies("event-list:order", async () => {
  const { own, finish } = await queued();
  const asc = await list(api, own);
  expect(asc.slice(-2)).toMatchObject([
    { ...message("question 2"), processed_at: null },
    { ...message("question 3"), processed_at: null },
  ]);
  const stamps = asc.slice(0, -2).map(({ processed_at }) => processed_at ?? "");
  expect(stamps).toEqual(stamps.toSorted());
  expect(await list(api, own, "&order=asc")).toEqual(asc);
  expect(await list(api, own, "&order=desc")).toEqual(asc.toReversed());
  await finish();
});

verifies("event-list:causal", async () => {
  const { own, finish } = await queued();
  const all = await finish();
  const said = all.flatMap((event) => {
    const [block] = (event["content"] ?? []) as readonly { readonly text: string }[];
    return block === undefined ? [] : [block.text];
  });
  expect(said).toEqual(["question 1", "Answer 1.", "question 2", "Answer 2.", "question 3", "Answer 3."]);
  await until(api, own, isIdle());
});

for (const order of ["asc", "desc"]) {
  for (const limit of [1, 2, 7, 1000]) {
    verifies("event-list:pages", `${order}, ${limit} a page`, async () => {
      const { items, sizes } = await allPages(api, `${path()}?order=${order}&limit=${limit}`);
      expect(items).toEqual(order === "asc" ? events : events.toReversed());
      expect(Math.max(...sizes)).toBe(Math.min(limit, events.length));
    });
  }
}
verifies("event-list:pages", "of an empty session", async () => {
  const own = await newSession(api, scripted.server.environmentId);
  expect(await api.read(`/v1/sessions/${own.id}/events`)).toEqual({ data: [], next_page: null });
});

verifies("event-list:growing", async () => {
  await scripted.script(says("One."), says("Two."));
  const own = await newSession(api, scripted.server.environmentId);
  await runTurn(api, own, "first");
  const first = await api.read(`/v1/sessions/${own.id}/events?limit=3`);
  const all = await runTurn(api, own, "second");
  const later: Body[] = [];
  for (let cursor = first.next_page; cursor !== null; ) {
    const next: Body = await api.read(`/v1/sessions/${own.id}/events?limit=3&page=${encodeURIComponent(cursor)}`);
    later.push(...next.data);
    cursor = next.next_page;
  }
  expect([...first.data, ...later]).toEqual(all);
});

verifies("event-list:limit", async () => {
  expect((await page("limit=1")).data).toHaveLength(1);
  expect((await page("limit=1000")).data).toEqual(events);
  for (const limit of ["0", "1001", "-1", "x"]) expectError(await api.get(`${path()}?limit=${limit}`), 400, "limit");
});
verifies("event-list:limit", "another order is a 400", async () => {
  expectError(await api.get(`${path()}?order=random`), 400, "order");
});

verifies("event-list:types", async () => {
  expect(types((await page("types[]=agent.message")).data)).toEqual([
    "agent.message",
    "agent.message",
    "agent.message",
  ]);
  const two = await page("types[]=user.message&types[]=agent.message&order=desc");
  expect(two.data).toEqual(events.filter(({ type }) => ["user.message", "agent.message"].includes(type)).toReversed());
  expect((await page("types[]=agent.mcp_tool_use")).data).toEqual([]);
  const paged = await allPages(api, `${path()}?types[]=user.message&types[]=agent.message&limit=2`);
  expect(paged.sizes).toEqual([2, 2, 2]);
});

const bounds: readonly (readonly [string, (stamp: string, bound: string) => boolean])[] = [
  ["gt", (stamp, bound) => stamp > bound],
  ["gte", (stamp, bound) => stamp >= bound],
  ["lt", (stamp, bound) => stamp < bound],
  ["lte", (stamp, bound) => stamp <= bound],
];
for (const [bound, holds] of bounds) {
  verifies("event-list:time", bound, async () => {
    const middle = events[Math.floor(events.length / 2)]?.processed_at ?? "";
    const expected = events.filter(({ processed_at }) => holds(processed_at ?? "", middle));
    expect(expected.length).toBeGreaterThan(0);
    expect((await page(`created_at[${bound}]=${encodeURIComponent(middle)}`)).data).toEqual(expected);
  });
}
verifies("event-list:time", "both ends; a time that is none is a 400", async () => {
  const [from, to] = [events[3]?.processed_at ?? "", events[9]?.processed_at ?? ""];
  const { data } = await page(`created_at[gte]=${from}&created_at[lt]=${to}`);
  expect(data).toEqual(events.filter(({ processed_at }) => (processed_at ?? "") >= from && (processed_at ?? "") < to));
  expectError(await api.get(`${path()}?created_at[gt]=soon`), 400, "created_at");
});

verifies("event-list:cursor", async () => {
  const cursor = encodeURIComponent((await page("limit=2")).next_page ?? "");
  const other = await newSession(api, scripted.server.environmentId);
  expectError(await api.get(`/v1/sessions/${other.id}/events?limit=2&page=${cursor}`), 400, "page");
  expectError(await api.get(`${path()}?limit=2&order=desc&page=${cursor}`), 400, /page|order/);
  expectError(await api.get(`${path()}?limit=2&page=nonsense`), 400, "page");
  expect((await api.read(`${path()}?limit=5&page=${cursor}`)).data).toEqual(events.slice(2, 7));
});

verifies("event-list:ids", async () => {
  expect(new Set(ids(events)).size).toBe(events.length);
  for (const event of events) {
    expect(event).toMatchObject({ id: expect.stringMatching(/^sevt_/), type: expect.any(String) });
    expect(event.processed_at).toMatch(TIME);
  }
});

verifies("event-list:read-your-writes", async () => {
  await scripted.script();
  const own = await newSession(api, scripted.server.environmentId);
  const feed = await EventFeed.open(scripted.server, own.id);
  await send(api, own, message("hello"));
  for (;;) {
    const seen = await feed.until(() => true);
    expect(ids(await list(api, own))).toContain(seen.id);
    if (seen.type === "session.status_idle") break;
  }
  feed.close();
});
