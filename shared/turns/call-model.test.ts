import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { customTool } from "../../test/e2e/session-driver.ts";
import {
  answers,
  type ByHand,
  type HandSession,
  later,
  spans,
  startByHand,
  text,
  use,
} from "../../test/faults/by-hand.ts";
import { ModelAborted, ModelError } from "../model/model.ts";
import { callModel } from "./call-model.ts";
import { completeTurn } from "./complete-turn.ts";
import { executionLost } from "./reconcile.ts";
import { TurnBusyError } from "./turn-errors.ts";

let hand: ByHand;
let session: HandSession;
let ref: { turnId: string; segment: number };
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  hand.replies.splice(0);
  session = await hand.open([customTool("lookup")]);
  await session.send(go);
  ref = await session.ref();
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const expireLeases = () =>
  hand.database.pool.query("update provider_calls set lease_expires_at = now() - interval '1 s'");
const messages = async () =>
  (await session.events()).filter(({ type }) => type === "agent.message").map(({ payload }) => payload.content[0].text);
const USAGE = {
  inputTokens: 5,
  outputTokens: 3,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};
const failed = (fields: object) => () =>
  Promise.reject(new ModelError("Broken.", { type: "model_request_failed_error", retryable: true, ...fields }));

test("while a request is under way another invocation is told to come back", async () => {
  const answer = later(answers("end_turn", text("Hello.")));
  hand.replies.push(answer.reply);
  const asking = callModel(hand.product, ref);
  await answer.asked;
  await expect(callModel(hand.product, ref)).rejects.toThrow(TurnBusyError);
  answer.release();
  expect(await asking).toEqual({ ...ref, next: "end" });
  // And once it is answered, every further one is told the outcome.
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  expect(await messages()).toEqual(["Hello."]);
});

test("an answer that is late, but that nobody has judged, counts", async () => {
  const answer = later(answers("end_turn", text("Hello.")));
  hand.replies.push(answer.reply);
  const asking = callModel(hand.product, ref);
  await answer.asked;
  await expireLeases();
  answer.release();
  expect(await asking).toEqual({ ...ref, next: "end" });
  expect(await session.calls()).toEqual([{ attempt: 1, state: "completed", input_tokens: 11, output_tokens: 7 }]);
});

/** What comes of the call that lost its lease, when it comes at last. */
const zombies = [
  ["its answer", answers("end_turn", text("zombie")), { input_tokens: 11, output_tokens: 7 }],
  ["calls of its own", answers("tool_use", use("toolu_z", "lookup")), { input_tokens: 11, output_tokens: 7 }],
  ["a break with its usage", failed({ usage: USAGE }), { input_tokens: 5, output_tokens: 3 }],
  ["a refusal for good", failed({ retryable: false, status: 400 }), { input_tokens: 0, output_tokens: 0 }],
  ["its abort", () => Promise.reject(new ModelAborted(USAGE)), { input_tokens: 5, output_tokens: 3 }],
] as const;

test.each(zombies)(
  "a call that lost its lease gets %s during the second attempt: only its cost is kept",
  async (_, reply, cost) => {
    const [zombie, second] = [later(reply), later(answers("end_turn", text("second")))];
    hand.replies.push(zombie.reply, second.reply);
    const first = callModel(hand.product, ref);
    await zombie.asked;
    await expireLeases();
    const repeated = callModel(hand.product, ref);
    await second.asked;
    const before = await session.events();

    zombie.release();

    // Not `stop`, which would end the execution of a turn that is still this segment's.
    await expect(first).rejects.toThrow(TurnBusyError);
    expect(await session.events()).toEqual(before);
    expect(await session.usage()).toEqual(cost);
    expect(await session.calls()).toEqual([
      { attempt: 1, state: "ambiguous", ...cost },
      { attempt: 2, state: "started", input_tokens: 0, output_tokens: 0 },
    ]);

    second.release();
    expect(await repeated).toEqual({ ...ref, next: "end" });
    await completeTurn(hand.product, ref);
    expect(await messages()).toEqual(["second"]);
    const { starts, ends } = spans(await session.events());
    expect(starts).toHaveLength(2);
    expect(ends).toEqual(starts);
    expect(await session.usage()).toEqual({
      input_tokens: 11 + cost.input_tokens,
      output_tokens: 7 + cost.output_tokens,
    });
  },
);

test.each(zombies)(
  "a call that lost its lease gets %s after the second attempt's answer: only its cost is kept",
  async (_, reply, cost) => {
    const zombie = later(reply);
    hand.replies.push(zombie.reply, answers("end_turn", text("second")));
    const first = callModel(hand.product, ref);
    await zombie.asked;
    await expireLeases();
    expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
    const before = await session.events();

    zombie.release();

    await expect(first).rejects.toThrow(TurnBusyError);
    expect(await session.events()).toEqual(before);
    expect(await session.usage()).toEqual({
      input_tokens: 11 + cost.input_tokens,
      output_tokens: 7 + cost.output_tokens,
    });
    // The state's retry asks the journal, which knows.
    expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
    expect(hand.replies).toEqual([]);
  },
);

test.each(zombies)(
  "a call of an interrupted turn gets %s: nothing is published, its cost reaches the session once",
  async (_, reply, cost) => {
    const answer = later(reply);
    hand.replies.push(answer.reply);
    const asking = callModel(hand.product, ref);
    await answer.asked;
    await session.send({ type: "user.interrupt" });
    const before = await session.events();

    answer.release();

    expect(await asking).toEqual({ ...ref, next: "stop" });
    expect(await session.events()).toEqual(before);
    expect(before.at(-1)?.type).toBe("session.status_idle");
    expect(await session.usage()).toEqual(cost);
    expect(await session.calls()).toEqual([{ attempt: 1, state: "ambiguous", ...cost }]);
  },
);

test("an abort that nobody asked for in the database closes its span, and the state's retry asks again", async () => {
  hand.replies.push(() => Promise.reject(new ModelAborted(USAGE)), answers("end_turn", text("Hello.")));
  await expect(callModel(hand.product, ref)).rejects.toThrow(TurnBusyError);
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  const { starts, ends } = spans(await session.events());
  expect(starts).toHaveLength(2);
  expect(ends).toEqual(starts);
  expect(await session.usage()).toEqual({ input_tokens: 16, output_tokens: 10 });
});

const unusable = [
  ["two calls with one id", answers("tool_use", use("toolu_1", "lookup", { q: "a" }), use("toolu_1", "lookup"))],
  ["a call without an id", answers("tool_use", { type: "tool_use", name: "lookup", input: {} })],
  ["a NUL in a call's id", answers("tool_use", use("toolu_\u0000", "lookup"))],
  ["a NUL in a tool's name", answers("tool_use", use("toolu_1", "look\u0000up"))],
  ["a NUL in the stop reason", answers("end\u0000turn", text("Hello."))],
] as const;

test.each(unusable)(
  "an answer with %s is asked for again a few times and then given up; every one is paid for",
  async (_, reply) => {
    hand.replies.push(...Array.from({ length: 10 }, () => reply));
    const outcomes: string[] = [];
    do {
      await session.pauseIsOver();
      outcomes.push((await callModel(hand.product, ref)).next);
    } while (outcomes.at(-1) === "retry" && outcomes.length < 10);

    expect(outcomes).toEqual(["retry", "retry", "retry", "retry", "retry", "retry", "stop"]);
    expect(await session.usage()).toEqual({ input_tokens: 77, output_tokens: 49 });
    const events = await session.events();
    expect(
      events.filter(({ type }) => type === "session.error").map(({ payload }) => payload.error.retry_status.type),
    ).toEqual([...Array.from({ length: 6 }, () => "retrying"), "exhausted"]);
    expect(events.at(-1)).toMatchObject({
      type: "session.status_idle",
      payload: { stop_reason: { type: "retries_exhausted" } },
    });
    expect(spans(events).ends).toEqual(spans(events).starts);
    expect(await session.turn()).toMatchObject({ state: "exhausted" });
    // And the session is none the worse for it.
    hand.replies.splice(0, Number.POSITIVE_INFINITY, answers("end_turn", text("Better.")));
    await session.send(go);
    expect((await callModel(hand.product, await session.ref())).next).toBe("end");
    expect(await messages()).toEqual(["Better."]);
  },
);

test("a repeat of a lost request carries the same idempotency key; one after a refusal, and another round, do not (F04)", async () => {
  const keys: unknown[] = [];
  const keyed =
    (reply: ByHand["replies"][number]): ByHand["replies"][number] =>
    (request) => {
      keys.push(request.idempotencyKey);
      return reply(request);
    };
  const lost = later(answers("end_turn", text("zombie")));
  hand.replies.push(keyed(lost.reply), keyed(failed({})), keyed(answers("pause_turn")), keyed(answers("end_turn")));
  const first = callModel(hand.product, ref).catch(() => {});
  await lost.asked;
  await expireLeases();
  await callModel(hand.product, ref);
  lost.release();
  await first;
  await session.pauseIsOver();
  await callModel(hand.product, ref);
  await callModel(hand.product, ref);

  expect(keys).toHaveLength(4);
  expect(keys[1]).toBe(keys[0]);
  expect(new Set(keys).size).toBe(3);
  expect(keys[0]).toMatch(/^pcall_/);
});

test("an answer that is usable after all resets the count", async () => {
  const [, twice] = unusable[0];
  hand.replies.push(twice, twice, answers("end_turn", text("Hello.")));
  expect((await callModel(hand.product, ref)).retry).toBe(1);
  await session.pauseIsOver();
  expect((await callModel(hand.product, ref)).retry).toBe(2);
  await session.pauseIsOver();
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  expect(await session.turn()).toMatchObject({ state: "running", retries: 0 });
});

test("a segment that takes over in the middle of the provider's pause waits for the rest of it", async () => {
  hand.replies.push(failed({ retryAfterMs: 600_000 }), answers("end_turn", text("Hello.")));
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "retry", delaySeconds: 600, retry: 1 });
  await executionLost(hand.product, ref);
  const second = { ...ref, segment: 2 };

  const { delaySeconds, ...known } = await callModel(hand.product, second);

  expect(known).toEqual({ ...second, next: "retry", retry: 1 });
  expect(delaySeconds).toBeGreaterThan(500);
  expect(delaySeconds).toBeLessThanOrEqual(600);
  expect(await session.turn()).toMatchObject({ state: "backing_off", segment: 2 });
  expect(await session.calls()).toHaveLength(1);
  await session.pauseIsOver();
  expect(await callModel(hand.product, second)).toEqual({ ...second, next: "end" });
});

test("a refusal whose commit broke off is not asked again before the provider's pause is over", async () => {
  hand.replies.push(failed({ retryAfterMs: 600_000 }));
  await expect(callModel(losingCommit(2), ref)).rejects.toThrow(TurnBusyError);

  expect(await callModel(hand.product, ref)).toMatchObject({ next: "retry", retry: 1 });

  expect(await session.calls()).toHaveLength(1);
  expect((await session.events()).filter(({ type }) => type === "session.error")).toHaveLength(1);
});

test("an answer that cannot be stored at once is stored at the next try, and published once", async () => {
  const { pool } = hand.database;
  // A sequence, because what counts the failures must survive their rollback.
  await pool.query("create sequence outages");
  await pool.query(`create function refuse_twice() returns trigger language plpgsql as $$
    begin
      if new.role = 'assistant' and new.session_id = '${session.id}' and nextval('outages') <= 2 then
        raise exception 'the disk is full' using errcode = '53100';
      end if;
      return new;
    end $$`);
  await pool.query(
    "create trigger refuse_twice before insert on transcript_entries for each row execute function refuse_twice()",
  );
  hand.replies.push(answers("end_turn", text("Hello.")));

  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });

  expect(await messages()).toEqual(["Hello."]);
  expect(await session.calls()).toEqual([{ attempt: 1, state: "completed", input_tokens: 11, output_tokens: 7 }]);
  expect(await session.usage()).toEqual({ input_tokens: 11, output_tokens: 7 });
});

/** The product, whose nth commit takes effect and then loses its connection before it says so. */
function losingCommit(nth: number): typeof hand.product {
  let commits = 0;
  const connect = async () => {
    const client = await hand.database.pool.connect();
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
    const lossy = async (...args: unknown[]) => {
      const result = await query(...args);
      if (args[0] === "commit") commits += 1;
      if (args[0] === "commit" && commits === nth) throw new Error("Connection terminated unexpectedly");
      return result;
    };
    return { query: lossy, release: (error?: Error) => client.release(error) };
  };
  const database = { connect, query: hand.database.pool.query.bind(hand.database.pool) };
  return { ...hand.product, database: database as unknown as typeof hand.product.database };
}

test.each(zombies)(
  "%s that was stored, though its commit broke off, is neither published nor paid for twice",
  async (_, reply, cost) => {
    hand.replies.push(reply);
    // The first commit is the request's, the second its outcome's.
    await callModel(losingCommit(2), ref).catch((error: unknown) => expect(error).toBeInstanceOf(TurnBusyError));

    expect(await session.usage()).toEqual(cost);
    expect(await session.calls()).toMatchObject([{ attempt: 1, ...cost }]);
    const events = await session.events();
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
    expect(spans(events).ends.length).toBeLessThanOrEqual(1);
    expect(events.filter(({ type }) => type === "session.error").length).toBeLessThanOrEqual(1);
  },
);

test.each(zombies)(
  "%s that came too late is paid for once, though the commit of its cost broke off",
  async (_, reply, cost) => {
    const answer = later(reply);
    hand.replies.push(answer.reply);
    const asking = callModel(losingCommit(2), ref);
    await answer.asked;
    await session.send({ type: "user.interrupt" });
    answer.release();
    expect(await asking).toEqual({ ...ref, next: "stop" });
    expect(await session.usage()).toEqual(cost);
  },
);
