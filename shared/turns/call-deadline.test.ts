import { once } from "node:events";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { answers, type ByHand, type HandSession, spans, startByHand, text } from "../../test/faults/by-hand.ts";
import { ModelAborted, ModelError } from "../model/model.ts";
import { callModel } from "./call-model.ts";
import { completeTurn } from "./complete-turn.ts";
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
  session = await hand.open();
  await session.send(go);
  ref = await session.ref();
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const USAGE = {
  inputTokens: 5,
  outputTokens: 3,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};
const near = () => ({ deadline: new Date() });
const far = () => ({ deadline: new Date(Date.now() + 900_000) });

/** An answer that never ends by itself: whoever asked has to hang up. */
const endless: ByHand["replies"][number] = async ({ signal }) => {
  if (!signal.aborted) await once(signal, "abort");
  throw new ModelAborted(USAGE);
};

test("a request that outlasts its invocation ends the turn exhausted, with what it cost, and is never repeated", async () => {
  const asked = hand.requests.length;
  hand.replies.push(endless);

  expect(await callModel(hand.product, ref, near())).toEqual({ ...ref, next: "stop" });

  expect(await session.turn()).toMatchObject({ state: "exhausted", retries: 0 });
  expect(await session.calls()).toEqual([{ attempt: 1, state: "failed", input_tokens: 5, output_tokens: 3 }]);
  expect(await session.usage()).toEqual({ input_tokens: 5, output_tokens: 3 });
  const events = await session.events();
  expect(spans(events).ends).toEqual(spans(events).starts);
  expect(events.filter(({ type }) => type === "session.error").map(({ payload }) => payload.error)).toEqual([
    {
      type: "model_request_failed_error",
      message: "The model did not finish its answer in the time that one request may take.",
      retry_status: { type: "exhausted" },
    },
  ]);
  expect(events.at(-1)).toMatchObject({
    type: "session.status_idle",
    payload: { stop_reason: { type: "retries_exhausted" } },
  });
  // Whoever invokes the state again is told so, and the provider is not.
  expect(await callModel(hand.product, ref, near())).toEqual({ ...ref, next: "stop" });
  expect(hand.requests).toHaveLength(asked + 1);
  // And the session is none the worse for it.
  hand.replies.push(answers("end_turn", text("Shorter.")));
  await session.send(go);
  expect((await callModel(hand.product, await session.ref(), far())).next).toBe("end");
});

test("an interrupt that comes before the deadline has ended the turn: only the cost of the request is kept", async () => {
  let before: unknown[] = [];
  hand.replies.push(async (request) => {
    await session.send({ type: "user.interrupt" });
    before = await session.events();
    return endless(request);
  });

  expect(await callModel(hand.product, ref, near())).toEqual({ ...ref, next: "stop" });

  expect(await session.events()).toEqual(before);
  expect(before.at(-1)).toMatchObject({ payload: { stop_reason: { type: "end_turn" } } });
  expect(await session.turn()).toMatchObject({ state: "interrupted" });
  expect(await session.calls()).toEqual([{ attempt: 1, state: "ambiguous", input_tokens: 5, output_tokens: 3 }]);
  expect(await session.usage()).toEqual({ input_tokens: 5, output_tokens: 3 });
});

test("before the deadline everything is as it was: an abort comes back, a failure is retried, an answer counts", async () => {
  hand.replies.push(
    () => Promise.reject(new ModelAborted(USAGE)),
    () => Promise.reject(new ModelError("Busy.", { type: "model_overloaded_error", retryable: true })),
    answers("end_turn", text("Hello.")),
  );

  await expect(callModel(hand.product, ref, far())).rejects.toThrow(TurnBusyError);
  expect(await callModel(hand.product, ref, far())).toMatchObject({ next: "retry", retry: 1 });
  await session.pauseIsOver();
  expect(await callModel(hand.product, ref, far())).toEqual({ ...ref, next: "end" });
  await completeTurn(hand.product, ref);
  expect(await session.turn()).toMatchObject({ state: "completed" });
});
