import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { customTool } from "../../test/e2e/session-driver.ts";
import { answers, type ByHand, type HandSession, later, startByHand, text, use } from "../../test/faults/by-hand.ts";
import { ModelError } from "../model/model.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import { awaitActions, backoff, hibernate } from "./await-actions.ts";
import { callModel } from "./call-model.ts";
import { completeTurn } from "./complete-turn.ts";
import { gateTools } from "./gate-tools.ts";

let hand: ByHand;
let session: HandSession;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  hand.replies.splice(0);
  session = await hand.open([customTool("lookup")]);
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const result = (eventId: string | undefined) => ({ type: "user.custom_tool_result", custom_tool_use_id: eventId });
const overloaded = () => () =>
  Promise.reject(
    new ModelError("Overloaded.", { type: "model_overloaded_error", retryable: true, retryAfterMs: 2000 }),
  );

/** A turn whose nth round waits for the application; its handler has not been told the token yet. */
async function gated(calls = 1) {
  hand.replies.push(
    answers(
      "tool_use",
      ...Array.from({ length: calls }, (_, index) => use(`toolu_${hand.requests.length}_${index}`, "lookup")),
    ),
  );
  if ((await session.turns()).length === 0) await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  await gateTools(hand.product, ref);
  return ref;
}

/** Everything that a handler could leave behind. */
const traces = async () => ({
  turns: await session.turns(),
  outbox: await session.outbox(),
  events: await session.events(),
});

test("the token of a turn that waits is kept, and the last answer releases it", async () => {
  const ref = await gated(2);
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "living" });
  expect(await session.turn()).toMatchObject({ state: "parked", task_token: "living" });
  const [first, second] = await session.waiting();
  expect((await session.send(result(first))).outbox).toEqual([]);
  const { outbox } = await session.send(result(second));
  expect(outbox).toMatchObject([{ kind: "release", segment: 1, taskToken: "living" }]);
  expect(JSON.parse(outbox[0]?.payload ?? "")).toEqual({ ...ref, run: [], round: 1, next: "continue" });
});

test("an answer that comes before the token is not forgotten: the token is released at once", async () => {
  const ref = await gated();
  const [eventId] = await session.waiting();
  expect((await session.send(result(eventId))).outbox).toEqual([]);
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "living" });
  expect(hand.releases.at(-1)).toEqual({
    taskToken: "living",
    output: JSON.stringify({ ...ref, run: [], round: 1, next: "continue" }),
  });
});

test("an interrupt that comes before the token ends its execution", async () => {
  const ref = await gated();
  await session.send({ type: "user.interrupt" });
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "orphan" });
  expect(hand.releases.at(-1)).toEqual({
    taskToken: "orphan",
    output: JSON.stringify({ ...ref, run: [], round: 0, next: "stop" }),
  });
  expect(await session.outbox()).toEqual([]);
});

test("a late handler of an earlier round changes nothing on the turn that waits again; its own token is let go", async () => {
  const ref = await gated();
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "first" });
  await session.send(result((await session.waiting())[0]));
  await gated();
  await awaitActions(hand.product, { ...ref, round: 2, taskToken: "second" });
  const before = await traces();
  const released = hand.releases.length;

  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "dead" });

  expect(await traces()).toEqual(before);
  expect(hand.releases.slice(released).map(({ taskToken, output }) => [taskToken, JSON.parse(output).next])).toEqual([
    ["dead", "continue"],
  ]);
  expect(await session.turn()).toMatchObject({ state: "parked", task_token: "second" });
});

test("a late handler of an earlier round changes nothing while the model is asked; its own token is let go", async () => {
  const ref = await gated();
  await session.send(result((await session.waiting())[0]));
  const answer = later(answers("end_turn", text("Found.")));
  hand.replies.push(answer.reply);
  const asking = callModel(hand.product, ref);
  await answer.asked;
  const before = await traces();

  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "dead" });

  expect(await traces()).toEqual(before);
  answer.release();
  expect(await asking).toEqual({ ...ref, next: "end" });
  await completeTurn(hand.product, ref);
  expect(await session.turn()).toMatchObject({ state: "completed", task_token: null });
});

test("a token of a wait for the provider is kept, and an interrupt ends that wait", async () => {
  hand.replies.push(overloaded());
  await session.send(go);
  const ref = await session.ref();
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "retry", delaySeconds: 2, retry: 1 });
  await backoff(hand.product, { ...ref, retry: 1, taskToken: "pause" });
  expect(await session.turn()).toMatchObject({ state: "backing_off", task_token: "pause", retries: 1 });
  const { outbox } = await session.send({ type: "user.interrupt" });
  expect(outbox).toMatchObject([{ kind: "release", taskToken: "pause" }]);
});

test("a late handler of an earlier wait leaves no trace on the wait that follows", async () => {
  hand.replies.push(overloaded(), overloaded());
  await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  await session.pauseIsOver();
  await callModel(hand.product, ref);
  await backoff(hand.product, { ...ref, retry: 2, taskToken: "second" });
  const before = await traces();

  await backoff(hand.product, { ...ref, retry: 1, taskToken: "dead" });

  expect(await traces()).toEqual(before);
  expect(await session.turn()).toMatchObject({ state: "backing_off", task_token: "second", retries: 2 });
});

test("a late handler of a wait leaves no trace while the request is made again", async () => {
  const answer = later(answers("end_turn", text("Hello.")));
  hand.replies.push(overloaded(), answer.reply);
  await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  await session.pauseIsOver();
  const asking = callModel(hand.product, ref);
  await answer.asked;
  const before = await traces();

  await backoff(hand.product, { ...ref, retry: 1, taskToken: "dead" });

  expect(await traces()).toEqual(before);
  answer.release();
  expect(await asking).toEqual({ ...ref, next: "end" });
  await completeTurn(hand.product, ref);
  expect((await session.types()).at(-1)).toBe("session.status_idle");
});

test("a late handler of a wait leaves no trace on a turn that waits for people meanwhile", async () => {
  hand.replies.push(overloaded());
  await session.send(go);
  await callModel(hand.product, await session.ref());
  await session.pauseIsOver();
  const ref = await gated();
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "living" });
  const before = await traces();

  await backoff(hand.product, { ...ref, retry: 1, taskToken: "dead" });

  expect(await traces()).toEqual(before);
  const { outbox } = await session.send(result((await session.waiting())[0]));
  expect(outbox).toMatchObject([{ kind: "release", taskToken: "living" }]);
});

test("a handler of a segment that has lost its turn ends its own execution and touches nothing else", async () => {
  const ref = await gated();
  await hibernate(hand.product, ref);
  await session.send(result((await session.waiting())[0]));
  const before = await session.turn();
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "old" });
  await backoff(hand.product, { ...ref, retry: 1, taskToken: "older" });
  expect(await session.turn()).toEqual(before);
  expect(hand.releases.slice(-2).map(({ taskToken, output }) => [taskToken, JSON.parse(output).next])).toEqual([
    ["old", "stop"],
    ["older", "stop"],
  ]);
});

test("a long wait hibernates without a trace for clients, and the answer starts the next segment", async () => {
  const ref = await gated();
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "living" });
  const events = await session.events();

  expect(await hibernate(hand.product, ref)).toMatchObject({ next: "stop" });

  expect(await session.turn()).toMatchObject({ state: "hibernated", segment: 1, task_token: null });
  expect(await session.events()).toEqual(events);
  const { outbox } = await session.send(result((await session.waiting())[0]));
  expect(outbox).toMatchObject([{ kind: "start", segment: 2 }]);
  await relayAfterCommit(hand.product, outbox);
  expect(hand.starts.at(-1)?.name).toBe(`${ref.turnId}-2`);

  const next = { ...ref, segment: 2 };
  hand.replies.push(answers("end_turn", text("Found.")));
  expect(await callModel(hand.product, next)).toEqual({ ...next, next: "end" });
  await completeTurn(hand.product, next);
  expect((await session.types()).slice(-5)).toEqual([
    "agent.message",
    "span.model_request_end",
    "session.thread_status_idle",
    "session.usage",
    "session.status_idle",
  ]);
  expect(await session.turn()).toMatchObject({ state: "completed", segment: 2 });
});

test("one of two answers leaves a hibernated turn asleep", async () => {
  const ref = await gated(2);
  await hibernate(hand.product, ref);
  const [first] = await session.waiting();
  expect((await session.send(result(first))).outbox).toEqual([]);
  expect(await session.turn()).toMatchObject({ state: "hibernated", segment: 1 });
});

test("an answer that came just before the hibernation is not slept through: the turn goes on", async () => {
  const ref = await gated();
  await awaitActions(hand.product, { ...ref, round: 1, taskToken: "timed out" });
  await session.send(result((await session.waiting())[0]));
  expect(await hibernate(hand.product, ref)).toEqual({ ...ref, run: [], round: 1, next: "continue" });
  expect(await session.turn()).toMatchObject({ state: "running", segment: 1, task_token: null });
});

test("an interrupt of a hibernated turn ends it, and there is no execution to tell", async () => {
  const ref = await gated();
  await hibernate(hand.product, ref);
  expect((await session.send({ type: "user.interrupt" })).outbox).toEqual([]);
  expect(await session.turn()).toMatchObject({ state: "interrupted" });
  expect(await hibernate(hand.product, ref)).toMatchObject({ next: "stop" });
});
