import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { customTool, toolset } from "../../test/e2e/session-driver.ts";
import {
  answers,
  type ByHand,
  type HandSession,
  later,
  SERVER_TOOL,
  spans,
  startByHand,
  text,
  use,
} from "../../test/faults/by-hand.ts";
import { ModelAborted, ModelError } from "../model/model.ts";
import { awaitActions, hibernate } from "./await-actions.ts";
import { callModel } from "./call-model.ts";
import { completeTurn, failTurn } from "./complete-turn.ts";
import { gateTools } from "./gate-tools.ts";
import { runTool } from "./run-tool.ts";

let hand: ByHand;
let session: HandSession;
let ref: { turnId: string; segment: number };
/** What a handler that is still at work will do when it is let go. */
let straggler: { release(): void; done: Promise<unknown> } | undefined;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  straggler = undefined;
  hand.replies.splice(0);
  session = await hand.open([customTool("lookup"), toolset()], [{ ...SERVER_TOOL, policy: "always_allow" }]);
  await session.send(go);
  ref = await session.ref();
});
afterEach(async () => {
  straggler?.release();
  await straggler?.done.catch(() => {});
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const interrupt = { type: "user.interrupt" };

async function asked(...replies: ByHand["replies"]): Promise<void> {
  hand.replies.push(...replies);
  await callModel(hand.product, ref).catch(() => {});
}
const lookups = [use("toolu_1", "lookup"), use("toolu_2", "bash", { command: "ls" })];

/** Every place at which a turn can be ended from outside: the state of its round and of the round's call. */
const places: readonly (readonly [string, () => Promise<unknown>])[] = [
  ["before its first request", async () => {}],
  [
    "while the provider is asked",
    async () => {
      const answer = later(answers("tool_use", ...lookups));
      hand.replies.push(answer.reply);
      const done = callModel(hand.product, ref);
      straggler = { release: answer.release, done };
      await answer.asked;
    },
  ],
  [
    "while it backs off",
    () => asked(() => Promise.reject(new ModelError("Busy.", { type: "model_overloaded_error", retryable: true }))),
  ],
  ["after an aborted request", () => asked(() => Promise.reject(new ModelAborted(null)))],
  [
    "while a lost request is repeated",
    async () => {
      const [first, second] = [later(answers("end_turn", text("one"))), later(answers("end_turn", text("two")))];
      hand.replies.push(first.reply, second.reply);
      const done = [callModel(hand.product, ref)];
      await first.asked;
      await hand.database.pool.query("update provider_calls set lease_expires_at = now() - interval '1 s'");
      done.push(callModel(hand.product, ref));
      await second.asked;
      const release = () => {
        first.release();
        second.release();
      };
      straggler = { release, done: Promise.allSettled(done) };
    },
  ],
  ["answered, before CompleteTurn", () => asked(answers("end_turn", text("Hello.")))],
  ["answered with nothing at all", () => asked(answers("end_turn"))],
  ["answered with tool_use and no call", () => asked(answers("tool_use", text("hm")))],
  ["answered with a call that max_tokens cut off", () => asked(answers("max_tokens", ...lookups))],
  ["answered with a pause", () => asked(answers("pause_turn", text("wait")))],
  ["answered with calls, before the gate", () => asked(answers("tool_use", ...lookups))],
  [
    "its calls published, before it is parked",
    async () => {
      await asked(answers("tool_use", ...lookups));
      await gateTools(hand.product, ref);
    },
  ],
  [
    "parked",
    async () => {
      await asked(answers("tool_use", ...lookups));
      await gateTools(hand.product, ref);
      await awaitActions(hand.product, { ...ref, round: 1, taskToken: "living" });
    },
  ],
  [
    "hibernated",
    async () => {
      await asked(answers("tool_use", ...lookups));
      await gateTools(hand.product, ref);
      await hibernate(hand.product, ref);
    },
  ],
  [
    "one call answered",
    async () => {
      await asked(answers("tool_use", ...lookups));
      await gateTools(hand.product, ref);
      const [first] = await session.waiting();
      await session.send({ type: "user.custom_tool_result", custom_tool_use_id: first });
    },
  ],
  [
    "all calls answered, before the next request",
    async () => {
      await asked(answers("tool_use", use("toolu_1", "lookup")));
      await gateTools(hand.product, ref);
      const [first] = await session.waiting();
      await session.send({ type: "user.custom_tool_result", custom_tool_use_id: first });
    },
  ],
  [
    "while the server runs a call",
    async () => {
      await asked(answers("tool_use", use("toolu_1", "fetch_page"), use("toolu_2", "fetch_page")));
      await gateTools(hand.product, ref);
      const started = Promise.withResolvers<void>();
      const page = Promise.withResolvers<{ content: string; isError: boolean }>();
      hand.runTool = () => {
        started.resolve();
        return page.promise;
      };
      const [step] = await session.steps();
      const done = runTool(hand.product, { ...ref, stepId: step?.id ?? "" });
      straggler = { release: () => page.resolve({ content: "[]", isError: false }), done };
      await started.promise;
    },
  ],
  [
    "in its second round",
    async () => {
      await asked(answers("pause_turn", text("wait")), answers("tool_use", ...lookups));
      await callModel(hand.product, ref);
    },
  ],
];

/** What holds after every end, however the turn got there. */
async function expectEnded(reason: string): Promise<void> {
  const events = await session.events();
  const { starts, ends } = spans(events);
  expect(ends.toSorted()).toEqual(starts.toSorted());
  const idles = events
    .filter(({ type }) => type === "session.status_idle")
    .map(({ payload }) => payload.stop_reason.type);
  expect(idles.filter((type) => type !== "requires_action")).toEqual([reason]);
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", payload: { stop_reason: { type: reason } } });
  expect(events.filter(({ processed }) => !processed)).toEqual([]);
  const uses = events.filter(({ type }) => type.endsWith("tool_use")).map(({ id }) => id);
  const results = events
    .filter(({ type }) => type.endsWith("tool_result"))
    .map(({ payload }) => payload.tool_use_id ?? payload.custom_tool_use_id);
  expect(results.toSorted()).toEqual(uses.toSorted());
  const { rows } = await hand.database.pool.query(
    "select 1 from pending_actions where session_id = $1 and resolved_at is null",
    [session.id],
  );
  expect(rows).toEqual([]);
}

/** Whoever comes late, finds the turn gone and leaves no trace. */
async function expectFenced(): Promise<void> {
  const before = await session.events();
  straggler?.release();
  await straggler?.done;
  expect(await callModel(hand.product, ref)).toMatchObject({ next: "stop" });
  expect(await gateTools(hand.product, ref)).toMatchObject({ next: "stop", run: [] });
  await completeTurn(hand.product, ref);
  await failTurn(hand.product, { ...ref, error: "States.Timeout" });
  expect(await session.events()).toEqual(before);
}

/** The next message is answered, and the provider gets a request that it would take. */
async function expectUsable(): Promise<void> {
  hand.replies.splice(0, Number.POSITIVE_INFINITY, answers("end_turn", text("As you wish.")));
  await session.send(go);
  const next = await session.ref();
  expect(await callModel(hand.product, next)).toEqual({ ...next, next: "end" });
  await completeTurn(hand.product, next);
  const { messages } = JSON.parse(hand.requests.at(-1) ?? "") as {
    messages: { role: string; content: { type: string; id?: string; tool_use_id?: string }[] }[];
  };
  expect(messages.map(({ role }) => role)).toEqual(
    messages.map((_, index) => (index % 2 === 0 ? "user" : "assistant")),
  );
  for (const [index, { content }] of messages.entries()) {
    const calls = content.flatMap((block) => (block.type === "tool_use" ? [block.id] : []));
    const followers = messages[index + 1]?.content.slice(0, calls.length) ?? [];
    expect(followers.map((block) => block.tool_use_id)).toEqual(calls);
  }
  expect((await session.events()).at(-1)).toMatchObject({
    type: "session.status_idle",
    payload: { stop_reason: { type: "end_turn" } },
  });
}

test.each(places)("a turn that fails %s ends exhausted, once, and the session stays usable", async (_, reach) => {
  await reach();

  await failTurn(hand.product, { ...ref, error: "States.TaskFailed" });

  expect(await session.turn()).toMatchObject({ state: "exhausted", task_token: null });
  await expectEnded("retries_exhausted");
  const errors = (await session.events()).filter(({ type }) => type === "session.error");
  expect(errors.at(-1)?.payload.error).toMatchObject({ type: "unknown_error", retry_status: { type: "exhausted" } });
  await expectFenced();
  await expectUsable();
});

test.each(places)(
  "a turn that is interrupted %s ends with one end_turn, and the session stays usable",
  async (_, reach) => {
    await reach();

    await session.send(interrupt);

    expect(await session.turn()).toMatchObject({ state: "interrupted", task_token: null });
    await expectEnded("end_turn");
    await expectFenced();
    await expectUsable();
  },
);

test.each(places)(
  "a message that waits for a turn which fails %s is flushed, and the model still sees it",
  async (_, reach) => {
    await reach();
    const waiting = { type: "user.message", content: [{ type: "text", text: "and this" }] };
    await session.send(waiting);

    await failTurn(hand.product, { ...ref, error: "States.TaskFailed" });

    await expectEnded("retries_exhausted");
    expect(await session.turns()).toHaveLength(1);
    await expectUsable();
    expect(hand.requests.at(-1)?.split('"text":"and this"')).toHaveLength(2);
  },
);

test.each(places)("a message that waits for a turn which is interrupted %s is taken up next", async (_, reach) => {
  await reach();
  await session.send({ type: "user.message", content: [{ type: "text", text: "and this" }] });

  const { outbox } = await session.send(interrupt);

  expect(outbox.filter(({ kind }) => kind === "start")).toMatchObject([{ segment: 1 }]);
  expect((await session.turns()).map(({ state }) => state)).toEqual(["interrupted", "running"]);
  const next = await session.ref();
  hand.replies.splice(0, Number.POSITIVE_INFINITY, answers("end_turn", text("Both.")));
  await callModel(hand.product, next);
  await completeTurn(hand.product, next);
  const events = await session.events();
  expect(
    events.filter(({ type, payload }) => type === "session.status_idle" && payload.stop_reason.type === "end_turn"),
  ).toHaveLength(2);
  expect(events.filter(({ processed }) => !processed)).toEqual([]);
  expect(hand.requests.at(-1)?.split('"text":"and this"')).toHaveLength(2);
});
