import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { customTool } from "../../test/e2e/session-driver.ts";
import { answers, type ByHand, type HandSession, startByHand, text, use } from "../../test/faults/by-hand.ts";
import { inTransaction } from "../db/transaction.ts";
import { awaitActions } from "../turns/await-actions.ts";
import { callModel } from "../turns/call-model.ts";
import { gateTools } from "../turns/gate-tools.ts";
import { executionLost } from "../turns/reconcile.ts";
import { claimDue, type OutboxRow, queueRelease } from "./outbox.ts";
import { relayAfterCommit, relayDue } from "./relay.ts";

let hand: ByHand;
let session: HandSession;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  await hand.database.pool.query("delete from outbox");
  hand.orchestrator = { start: async () => "started", release: async () => "released" };
  hand.replies.splice(0);
  session = await hand.open([customTool("lookup")]);
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const names = (turnId: string) => hand.starts.map(({ name }) => name).filter((name) => name.startsWith(turnId));
const expireClaims = () => hand.database.pool.query("update outbox set claimed_until = now() - interval '1 s'");

test("a start is delivered under the segment's name, and its row stays until the segment runs", async () => {
  const { outbox } = await session.send(go);
  const { turnId } = await session.ref();

  await relayAfterCommit(hand.product, outbox);

  expect(hand.starts.at(-1)).toEqual({ name: `${turnId}-1`, input: JSON.stringify({ turnId, segment: 1 }) });
  expect(await session.outbox()).toHaveLength(1);
  hand.replies.push(answers("end_turn", text("Hello.")));
  await callModel(hand.product, { turnId, segment: 1 });
  expect(await session.outbox()).toEqual([]);
});

test("an execution's name is the whole turn id and its segment: nothing is cut, so that no two turns share one (F22)", async () => {
  const other = await hand.open();
  await relayAfterCommit(hand.product, [...(await session.send(go)).outbox, ...(await other.send(go)).outbox]);
  const turnIds = [(await session.ref()).turnId, (await other.ref()).turnId];

  expect(hand.starts.slice(-2).map(({ name }) => name)).toEqual(turnIds.map((turnId) => `${turnId}-1`));
  // What Step Functions allows; the largest segment that a turn can count to has ten digits.
  for (const turnId of turnIds) {
    expect(`${turnId}-2147483647`).toMatch(/^[0-9A-Za-z_-]{1,80}$/);
  }
});

test("an orchestrator that fails neither rejects nor loses anything: the row is found again by the relay", async () => {
  hand.orchestrator.start = () => Promise.reject(new TypeError("No such host."));
  const { outbox } = await session.send(go);
  const { turnId } = await session.ref();

  await expect(relayAfterCommit(hand.product, outbox)).resolves.toBeUndefined();

  expect(hand.warnings.at(-1)).toEqual({
    message: "An outbox row was not delivered; it will be tried again.",
    fields: { outbox_id: outbox[0]?.id, turn_id: turnId, kind: "start", error: "TypeError" },
  });
  hand.orchestrator.start = async () => "started";
  await expireClaims();
  expect(await relayDue(hand.product)).toBe(1);
  expect(names(turnId)).toEqual([`${turnId}-1`, `${turnId}-1`]);
});

test("one message that cannot be delivered does not keep the others", async () => {
  const other = await hand.open();
  const outbox = [...(await session.send(go)).outbox, ...(await other.send(go)).outbox];
  const [broken, fine] = [(await session.ref()).turnId, (await other.ref()).turnId];
  hand.orchestrator.start = (name) =>
    name.startsWith(broken) ? Promise.reject(new Error("Throttled.")) : Promise.resolve("started");

  await relayAfterCommit(hand.product, outbox);

  expect([names(broken), names(fine)]).toEqual([[`${broken}-1`], [`${fine}-1`]]);
});

test("an orchestrator that does not answer holds nobody up for ever", async () => {
  hand.orchestrator.start = () => new Promise(() => {});
  const { outbox } = await session.send(go);
  await expect(relayAfterCommit(hand.product, outbox)).resolves.toBeUndefined();
  expect(await session.outbox()).toHaveLength(1);
});

test("a name that is taken by an execution which did nothing is lost: the next segment takes over", async () => {
  const { outbox } = await session.send(go);
  const { turnId } = await session.ref();
  hand.orchestrator.start = async (name) => (name.endsWith("-1") ? "exists" : "started");

  await relayAfterCommit(hand.product, outbox);

  expect(names(turnId)).toEqual([`${turnId}-1`, `${turnId}-2`]);
  expect(hand.starts.at(-1)?.input).toBe(JSON.stringify({ turnId, segment: 2 }));
  expect(await session.outbox()).toEqual([{ kind: "start", segment: 2, task_token: null }]);
  // The lost one, should it live after all, is fenced.
  expect(await callModel(hand.product, { turnId, segment: 1 })).toEqual({ turnId, segment: 1, next: "stop" });
  hand.replies.push(answers("end_turn", text("Hello.")));
  expect(await callModel(hand.product, { turnId, segment: 2 })).toEqual({ turnId, segment: 2, next: "end" });
});

test("a name that is taken by an execution which did its work is left alone: started twice, run once (F23)", async () => {
  const { outbox } = await session.send(go);
  const ref = await session.ref();
  hand.replies.push(answers("end_turn", text("Hello.")));
  await callModel(hand.product, ref);
  hand.orchestrator.start = async () => "exists";

  await relayAfterCommit(hand.product, outbox);

  expect(names(ref.turnId)).toEqual([`${ref.turnId}-1`]);
  expect(await session.outbox()).toEqual([]);
  expect((await session.turn()).segment).toBe(1);
});

/** A turn that waits for the application, its token stored. */
async function parked(): Promise<{
  ref: { turnId: string; segment: number };
  answer: () => Promise<readonly OutboxRow[]>;
}> {
  hand.replies.push(answers("tool_use", use("toolu_1", "lookup")));
  await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  await gateTools(hand.product, ref);
  await awaitActions(hand.product, { ...ref, taskToken: "living", round: 1 });
  const [eventId] = await session.waiting();
  const result = { type: "user.custom_tool_result", custom_tool_use_id: eventId };
  return { ref, answer: async () => (await session.send(result)).outbox };
}

test("a start's row goes with the segment's first look, also where there is nothing to do but to wait on", async () => {
  const { ref } = await parked();
  await executionLost(hand.product, ref);
  const next = { ...ref, segment: 2 };
  expect(await session.outbox()).toEqual([{ kind: "start", segment: 2, task_token: null }]);

  expect(await callModel(hand.product, next)).toEqual({ ...next, next: "tools" });

  expect(await session.outbox()).toEqual([]);
  await gateTools(hand.product, next);
  await awaitActions(hand.product, { ...next, taskToken: "second", round: 1 });
  await expireClaims();
  expect(await relayDue(hand.product)).toBe(0);
  expect(await session.turn()).toMatchObject({ segment: 2, state: "parked", task_token: "second" });
});

test("a release whose token is stale, of a turn that stands where it was: the next segment takes over", async () => {
  const { ref, answer } = await parked();
  const outbox = await answer();
  expect(outbox).toMatchObject([{ kind: "release", taskToken: "living" }]);
  hand.orchestrator.release = async () => "stale";

  await relayAfterCommit(hand.product, outbox);

  expect(names(ref.turnId)).toEqual([`${ref.turnId}-2`]);
  expect(await session.outbox()).toEqual([{ kind: "start", segment: 2, task_token: null }]);
  hand.replies.push(answers("end_turn", text("Found.")));
  expect(await callModel(hand.product, { ...ref, segment: 2 })).toEqual({ ...ref, segment: 2, next: "end" });
});

test("a release that was delivered twice is stale the second time, and does nothing to the turn that went on", async () => {
  const { ref, answer } = await parked();
  const outbox = await answer();
  await relayAfterCommit(hand.product, outbox);
  hand.replies.push(answers("tool_use", use("toolu_2", "lookup")));
  await callModel(hand.product, ref);
  hand.orchestrator.release = async () => "stale";

  await relayAfterCommit(hand.product, outbox);

  expect(names(ref.turnId)).toEqual([]);
  expect(await session.turn()).toMatchObject({ segment: 1, state: "running" });
});

test("a stale release of a turn that waits again does not start a second execution beside the waiting one", async () => {
  const { ref } = await parked();
  const row = await inTransaction(hand.database.pool, (transaction) =>
    queueRelease(transaction, {
      workspaceId: "wrkspc_hand",
      sessionId: session.id,
      ...ref,
      taskToken: "dead",
      output: {},
    }),
  );
  hand.orchestrator.release = async () => "stale";

  await relayAfterCommit(hand.product, [row]);

  expect(names(ref.turnId)).toEqual([]);
  expect(await session.turn()).toMatchObject({ segment: 1, state: "parked", task_token: "living" });
  expect(await session.outbox()).toEqual([]);
});

test("a release that nobody needs to hear is dropped when it is stale, and nobody takes over", async () => {
  const { ref, answer } = await parked();
  await answer();
  const row = await inTransaction(hand.database.pool, (transaction) =>
    queueRelease(transaction, {
      workspaceId: "wrkspc_hand",
      sessionId: session.id,
      ...ref,
      taskToken: "dead",
      output: { next: "continue" },
      lostIfStale: false,
    }),
  );
  hand.orchestrator.release = async () => "stale";

  await relayAfterCommit(hand.product, [row]);

  expect(names(ref.turnId)).toEqual([]);
  expect(await session.turn()).toMatchObject({ segment: 1, state: "running" });
  expect(await session.outbox()).toEqual([{ kind: "release", segment: 1, task_token: "living" }]);
});

test.each(["released", "stale"] as const)(
  "an execution that is told to stop is told once, and %s is as good",
  async (outcome) => {
    const { ref } = await parked();
    const { outbox } = await session.send({ type: "user.interrupt" });
    expect(outbox).toMatchObject([{ kind: "release", taskToken: "living" }]);
    hand.orchestrator.release = async () => outcome;

    await relayAfterCommit(hand.product, outbox);

    expect(JSON.parse(hand.releases.at(-1)?.output ?? "")).toEqual({ ...ref, run: [], round: 0, next: "stop" });
    expect(await session.outbox()).toEqual([]);
    await expireClaims();
    expect(await claimDue(hand.database.pool, 10)).toEqual([]);
    expect(names(ref.turnId)).toEqual([]);
  },
);
