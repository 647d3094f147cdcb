import { afterAll, beforeAll, expect, test } from "vitest";
import type { Event } from "./event-feed.ts";
import { calls, says, toolUse } from "./scripted-model.ts";
import { customTool, isIdle, isType, message, SessionDriver, textOf } from "./session-driver.ts";
import { startTarget, type Target } from "./target.ts";

// What stands before the server may take no more than 6 MB of an answer, escaped once more: a page ends before its limit
// when its items are large, and whoever follows next_page sees all of them.
let target: Target;
beforeAll(async () => {
  target = await startTarget();
});
afterAll(() => target.close());

const MESSAGES = 12;
/** 420 KB in an answer, and half as much again where the answer is a string inside JSON. */
const LARGE = '"\\ü'.repeat(70_000);
const MOST_BYTES = 3 * 1024 * 1024;

interface Page<Item> {
  readonly items: Item[];
  readonly bytes: number;
}

async function pagesOf<Item>(path: string): Promise<Page<Item>[]> {
  const pages: Page<Item>[] = [];
  let page = "";
  do {
    const text = await (await target.server.request(`${path}${page}`)).text();
    const { data, next_page } = JSON.parse(text) as { data: Item[]; next_page: string | null };
    pages.push({ items: data, bytes: Buffer.byteLength(text) });
    page = next_page === null ? "" : `&page=${encodeURIComponent(next_page)}`;
  } while (page !== "");
  return pages;
}

test("a session of large messages is listed page by page, in either direction, by any client", async () => {
  await target.script(calls(toolUse("toolu_1", "lookup", {})), says("Done."));
  const session = await SessionDriver.open(target.server, { tools: [customTool("lookup")] });
  await session.send(message("first"));
  await session.until(isIdle("requires_action"));
  // They wait behind the call, so that no turn has to read them all.
  const texts = Array.from({ length: MESSAGES }, (_, i) => `${i} ${LARGE}`);
  for (const text of texts) {
    await session.send(message(text));
  }

  const ascending = await pagesOf<Event>(`/v1/sessions/${session.id}/events?limit=1000`);
  const descending = await pagesOf<Event>(`/v1/sessions/${session.id}/events?limit=1000&order=desc`);
  const followed: string[] = [];
  for await (const { id } of target.server.client.beta.sessions.events.list(session.id, { limit: 1000 })) {
    followed.push(id);
  }
  session.close();

  const all = ascending.flatMap(({ items }) => items);
  expect(all.filter(isType("user.message")).map(textOf)).toEqual(["first", ...texts]);
  expect(descending.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(all.map(({ id }) => id).toReversed());
  expect(followed).toEqual(all.map(({ id }) => id));
  expect(ascending.length).toBeGreaterThan(1);
  expect(Math.max(...[...ascending, ...descending].map(({ bytes }) => bytes))).toBeLessThan(MOST_BYTES);
});

test("agents with long instructions are listed page by page", async () => {
  const name = `large-${crypto.randomUUID()}`;
  const system = "x".repeat(90_000);
  for (let i = 0; i < 30; i += 1) {
    await target.server.request("/v1/agents", { json: { name: `${name}-${i}`, model: "test-1", system } });
  }

  const pages = await pagesOf<{ name: string }>("/v1/agents?limit=1000");

  const ours = pages.flatMap(({ items }) => items.filter((agent) => agent.name.startsWith(name)));
  expect(ours.map((agent) => agent.name)).toEqual(Array.from({ length: 30 }, (_, i) => `${name}-${29 - i}`));
  expect(pages.length).toBeGreaterThan(1);
  expect(Math.max(...pages.map(({ bytes }) => bytes))).toBeLessThan(MOST_BYTES);
});
