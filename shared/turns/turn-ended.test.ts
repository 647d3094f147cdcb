import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { answers, type ByHand, type HandSession, later, startByHand, text } from "../../test/faults/by-hand.ts";
import { ModelError } from "../model/model.ts";
import { relayDue } from "../outbox/relay.ts";
import type { Product, TurnOutcome } from "../product.ts";
import { callModel } from "./call-model.ts";
import { completeTurn, failTurn } from "./complete-turn.ts";
import { executionLost } from "./reconcile.ts";

let hand: ByHand;
let product: Product;
let session: HandSession;
let ref: { turnId: string; segment: number };
const told: TurnOutcome[] = [];
beforeAll(async () => {
  hand = await startByHand();
  product = { ...hand.product, turnEnded: (outcome) => told.push(outcome) };
});
afterAll(() => hand.close());
beforeEach(async () => {
  hand.replies.splice(0);
  hand.orchestrator.start = async () => "started";
  session = await hand.open();
  await session.send(go);
  ref = await session.ref();
  told.splice(0);
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const refused = (retryable: boolean) => () =>
  Promise.reject(new ModelError("No.", { type: "model_request_failed_error", retryable }));

async function asked(...replies: ByHand["replies"]): Promise<void> {
  for (const reply of replies) {
    hand.replies.push(reply);
    await callModel(product, ref);
    await session.pauseIsOver();
  }
}

async function lose(times: number): Promise<void> {
  for (let loss = 0; loss < times; loss += 1) {
    await executionLost(product, await session.ref());
  }
}

const ends: readonly (readonly [string, () => Promise<unknown>, TurnOutcome])[] = [
  [
    "is answered",
    async () => {
      await asked(answers("end_turn", text("Hello.")));
      await completeTurn(product, ref);
    },
    "completed",
  ],
  ["fails by a fault of ours", () => failTurn(product, { ...ref, error: "States.TaskFailed" }), "failed"],
  ["is refused by the provider for good", () => asked(refused(false)), "failed"],
  [
    "is refused until its retries are used up",
    () => asked(...Array.from({ length: 7 }, () => refused(true))),
    "failed",
  ],
  ["outgrows the model", () => asked(answers("model_context_window_exceeded")), "failed"],
  ["loses its executions again and again", () => lose(6), "failed"],
  [
    "was lost five times when the relay finds the sixth start taken",
    async () => {
      await lose(5);
      hand.orchestrator.start = async () => "exists";
      await hand.database.pool.query("update outbox set claimed_until = now() - interval '1 s' where session_id = $1", [
        session.id,
      ]);
      await relayDue(product);
    },
    "failed",
  ],
];

test.each(ends)("the end of a turn that %s is told once, and by nobody who comes after", async (_, end, outcome) => {
  await end();
  expect(told).toEqual([outcome]);

  await callModel(product, ref);
  await completeTurn(product, ref);
  await failTurn(product, { ...ref, error: "States.Timeout" });
  await executionLost(product, await session.ref());
  expect(told).toEqual([outcome]);
});

test("a turn that goes on is not told of", async () => {
  await asked(refused(true), answers("pause_turn", text("wait")));
  await lose(5);

  expect(told).toEqual([]);
  expect(await session.turn()).toMatchObject({ state: "running", segment: 6 });
});

test("an interrupt is neither a completion nor a failure, whatever its request comes to", async () => {
  const answer = later(refused(false));
  hand.replies.push(answer.reply);
  const asking = callModel(product, ref);
  await answer.asked;
  await session.send({ type: "user.interrupt" });
  answer.release();
  await asking;
  await completeTurn(product, ref);

  expect(told).toEqual([]);
});

test("an end whose commit is refused is not told", async () => {
  await asked(answers("end_turn", text("Hello.")));
  const broken: Product = {
    ...product,
    database: {
      query: product.database.query.bind(product.database),
      async connect() {
        const client = await product.database.connect();
        const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
        const refusing = (...args: unknown[]) =>
          args[0] === "commit" ? Promise.reject(new Error("Connection terminated unexpectedly")) : query(...args);
        return { query: refusing, release: (error?: Error) => client.release(error) } as unknown as typeof client;
      },
    },
  };

  await expect(completeTurn(broken, ref)).rejects.toThrow();
  expect(told).toEqual([]);
  await completeTurn(product, ref);
  expect(told).toEqual(["completed"]);
});
