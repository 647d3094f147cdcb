import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ask, customTool, toolset } from "../../test/e2e/session-driver.ts";
import { answers, type ByHand, type HandSession, startByHand, text, use } from "../../test/faults/by-hand.ts";
import { callModel } from "../turns/call-model.ts";
import { completeTurn } from "../turns/complete-turn.ts";
import { gateTools } from "../turns/gate-tools.ts";
import { stopQuietWork } from "./stop-quiet.ts";

let hand: ByHand;
let session: HandSession;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  await hand.database.pool.query("delete from work_items");
  hand.replies.splice(0);
  session = await hand.open([toolset(ask("bash")), customTool("lookup")]);
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };

/** The session after one answer of the model, with a worker attached. */
async function answered(reply: Parameters<ByHand["replies"]["push"]>[0]): Promise<void> {
  hand.replies.push(reply);
  await session.send(go);
  const ref = await session.ref();
  const { next } = await callModel(hand.product, ref);
  await (next === "tools" ? gateTools(hand.product, ref) : completeTurn(hand.product, ref));
  await activate();
}

const activate = () =>
  hand.database.pool.query("update work_items set state = 'active', started_at = now() where session_id = $1", [
    session.id,
  ]);

async function pass(minutes: number, what: "all" | "item" | "session" = "all"): Promise<void> {
  if (what !== "session") {
    await hand.database.pool.query("update work_items set started_at = started_at - make_interval(mins => $1)", [
      minutes,
    ]);
  }
  if (what !== "item") {
    await hand.database.pool.query(
      "update sessions set last_processed_at = last_processed_at - make_interval(mins => $1)",
      [minutes],
    );
  }
}

const items = async () =>
  (
    await hand.database.pool.query(
      "select state, stop_requested_at is not null as asked from work_items where session_id = $1",
      [session.id],
    )
  ).rows;
const asked = [{ state: "stopping", asked: true }];
const left = [{ state: "active", asked: false }];

test("a session that has been idle for more than two minutes lets its worker go, once", async () => {
  await answered(answers("end_turn", text("Hello.")));
  await pass(3);
  expect(await stopQuietWork(hand.database.pool)).toBe(1);
  expect(await items()).toEqual(asked);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
});

test.each([
  ["has only just become idle", "item"],
  ["has only just got its worker", "session"],
] as const)("a session that %s keeps its worker", async (_, what) => {
  await answered(answers("end_turn", text("Hello.")));
  await pass(3, what);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
  expect(await items()).toEqual(left);
});

test("a session that runs keeps its worker, however long it takes", async () => {
  await session.send(go);
  await activate();
  await pass(60);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
  expect(await items()).toEqual(left);
});

test("a session that waits for its worker's result keeps the worker", async () => {
  await answered(answers("tool_use", use("toolu_1", "read", { file_path: "x" })));
  await pass(60);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
  expect(await items()).toEqual(left);
});

test("a session that waits for an approval lets its worker go: a person may take a year", async () => {
  await answered(answers("tool_use", use("toolu_1", "bash", { command: "ls" })));
  await pass(3);
  expect(await stopQuietWork(hand.database.pool)).toBe(1);
  expect(await items()).toEqual(asked);
});

test("a session that waits for the application lets its worker go", async () => {
  await answered(answers("tool_use", use("toolu_1", "lookup")));
  await pass(3);
  expect(await stopQuietWork(hand.database.pool)).toBe(1);
  expect(await items()).toEqual(asked);
});

test("a session that waits for an approval of one call and the worker's result of another keeps the worker", async () => {
  await answered(
    answers("tool_use", use("toolu_1", "bash", { command: "ls" }), use("toolu_2", "read", { file_path: "x" })),
  );
  await pass(60);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
  expect(await items()).toEqual(left);
});

test("the approval of the worker's call brings a worker back in the same transaction", async () => {
  await answered(answers("tool_use", use("toolu_1", "bash", { command: "ls" })));
  await pass(3);
  await stopQuietWork(hand.database.pool);
  const [eventId] = await session.waiting();

  const { wakeEnvironment } = await session.send({
    type: "user.tool_confirmation",
    tool_use_id: eventId,
    result: "allow",
  });

  expect(wakeEnvironment).toBe(hand.environmentId);
  expect((await items()).map(({ state }) => state).toSorted()).toEqual(["queued", "stopping"]);
  await pass(60);
  expect(await stopQuietWork(hand.database.pool)).toBe(0);
});
