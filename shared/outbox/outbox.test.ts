import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type ByHand, type HandSession, startByHand } from "../../test/faults/by-hand.ts";
import { inTransaction } from "../db/transaction.ts";
import { acknowledge, claimDue, drop, queueRelease, queueStart } from "./outbox.ts";

let hand: ByHand;
let session: HandSession;
let turnId: string;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  await hand.database.pool.query("delete from outbox");
  session = await hand.open();
  await session.send({ type: "user.message", content: [{ type: "text", text: "go" }] });
  turnId = (await session.ref()).turnId;
});

const draft = () => ({ workspaceId: "wrkspc_hand", sessionId: session.id, turnId });
const expireClaims = () => hand.database.pool.query("update outbox set claimed_until = now() - interval '1 s'");

test("a message is born claimed by its author: no relay takes it up meanwhile", async () => {
  expect(await session.outbox()).toEqual([{ kind: "start", segment: 1, task_token: null }]);
  expect(await claimDue(hand.database.pool, 100)).toEqual([]);
});

test("a message whose author is gone is taken up by one relay, and again only after that one's claim", async () => {
  await expireClaims();
  expect(await claimDue(hand.database.pool, 100)).toMatchObject([
    { turnId, segment: 1, kind: "start", taskToken: null, payload: JSON.stringify({ turnId, segment: 1 }) },
  ]);
  expect(await claimDue(hand.database.pool, 100)).toEqual([]);
  await expireClaims();
  expect(await claimDue(hand.database.pool, 100)).toMatchObject([{ turnId, segment: 1 }]);
});

test("a relay takes no more than it asked for, and leaves alone what another is taking up", async () => {
  await inTransaction(hand.database.pool, (transaction) => queueStart(transaction, { ...draft(), segment: 2 }));
  await expireClaims();

  await inTransaction(hand.database.pool, async (transaction) => {
    const mine = await claimDue(transaction, 1);
    // Waits for nothing: the other's rows are locked, and skipped.
    const theirs = await claimDue(hand.database.pool, 100);
    expect([mine.length, theirs.length]).toEqual([1, 1]);
    expect(new Set([...mine, ...theirs].map(({ segment }) => segment))).toEqual(new Set([1, 2]));
  });
});

test("each failed delivery doubles the pause, up to five minutes", async () => {
  const pauses = await inTransaction(hand.database.pool, async (transaction) => {
    const seconds: number[] = [];
    for (let attempt = 1; attempt <= 7; attempt += 1) {
      await transaction.query("update outbox set claimed_until = now() - interval '1 s'");
      await claimDue(transaction, 1);
      const { rows } = await transaction.query<{ pause: number }>(
        "select extract(epoch from claimed_until - now())::int as pause from outbox",
      );
      seconds.push(rows[0]?.pause ?? 0);
    }
    return seconds;
  });
  expect(pauses).toEqual([20, 40, 80, 160, 300, 300, 300]);
});

test("the effect of a segment removes its start and earlier ones, nothing later, and no release", async () => {
  const other = await hand.open();
  await other.send({ type: "user.message", content: [{ type: "text", text: "go" }] });
  await inTransaction(hand.database.pool, async (transaction) => {
    await queueRelease(transaction, { ...draft(), segment: 1, taskToken: "token", output: {} });
    await queueStart(transaction, { ...draft(), segment: 2 });
    await queueStart(transaction, { ...draft(), segment: 3 });
  });

  await acknowledge(hand.database.pool, { turnId, segment: 2 });

  expect(await session.outbox()).toEqual([
    { kind: "release", segment: 1, task_token: "token" },
    { kind: "start", segment: 3, task_token: null },
  ]);
  expect(await other.outbox()).toEqual([{ kind: "start", segment: 1, task_token: null }]);
});

test("a message is dropped once; whoever comes second learns that it was gone", async () => {
  await expireClaims();
  const [row] = await claimDue(hand.database.pool, 1);
  expect(await drop(hand.database.pool, row?.id ?? "")).toBe(true);
  expect(await drop(hand.database.pool, row?.id ?? "")).toBe(false);
});
