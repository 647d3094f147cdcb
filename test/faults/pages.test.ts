import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Event } from "../e2e/event-feed.ts";
import { held, type ScriptedServer, says, startScriptedServer } from "../e2e/scripted-model.ts";
import { isTurnEnd, isType, message, SessionDriver, textOf } from "../e2e/session-driver.ts";

// A message that waits changes its place in the list when its turn begins. Whoever reads page by page meanwhile must
// neither miss it nor see it twice.
let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterEach(() => session.close());
afterAll(() => scripted.close());

/** The list page by page, with a hook between the first page and the second. */
async function pages(order: "asc" | "desc", limit: number, between: () => Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  let page = "";
  do {
    const response = await scripted.server.request(
      `/v1/sessions/${session.id}/events?types[]=user.message&order=${order}&limit=${limit}${page}`,
    );
    const body = (await response.json()) as { data: Event[]; next_page: string | null };
    seen.push(...body.data.map(textOf));
    if (page === "") await between();
    page = body.next_page === null ? "" : `&page=${encodeURIComponent(body.next_page)}`;
  } while (page !== "");
  return seen;
}

/** A session with one message under way and two that wait; `release` has them all answered. */
async function withTwoQueued(): Promise<() => Promise<void>> {
  const gate = Promise.withResolvers<void>();
  await scripted.script(held(gate.promise, "A it is."), says("B it is."), says("C it is."));
  session = await SessionDriver.open(scripted.server);
  await session.send(message("A"));
  await session.until(isType("span.model_request_start"));
  await session.send(message("B"));
  await session.send(message("C"));
  return async () => {
    gate.resolve();
    await session.until((event) => event.type === "agent.message" && textOf(event) === "C it is.");
    await session.until(isTurnEnd);
  };
}

test.each([
  ["asc", 1, ["A", "B", "C"]],
  ["asc", 2, ["A", "B", "C"]],
  ["desc", 1, ["C", "B", "A"]],
  ["desc", 2, ["C", "B", "A"]],
] as const)(
  "messages that are stamped between two pages (%s, %i a page) are in exactly one of them",
  async (order, limit, all) => {
    const release = await withTwoQueued();
    expect(await pages(order, limit, release)).toEqual(all);
  },
);

test.each(["asc", "desc"] as const)(
  "a message that is stamped after the page that holds it (%s) is not told again",
  async (order) => {
    const release = await withTwoQueued();
    expect((await pages(order, 3, release)).toSorted()).toEqual(["A", "B", "C"]);
  },
);
