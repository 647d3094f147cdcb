import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ask, toolset } from "../../test/e2e/session-driver.ts";
import {
  answers,
  type ByHand,
  type HandSession,
  SERVER_TOOL,
  startByHand,
  text,
  use,
} from "../../test/faults/by-hand.ts";
import { expireLeases as expireAllLeases } from "../journal/provider-calls.ts";
import { callModel } from "./call-model.ts";
import { gateTools } from "./gate-tools.ts";
import { executionLost } from "./reconcile.ts";
import { runTool } from "./run-tool.ts";
import type { ToolCall } from "./tool-executor.ts";
import { TurnBusyError } from "./turn-errors.ts";

let hand: ByHand;
let session: HandSession;
let ran: ToolCall[];
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(() => {
  ran = [];
  hand.runTool = async (call) => {
    ran.push(call);
    return { content: '[{"type":"text","text":"a page"}]', isError: false };
  };
});

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const NOT_RUN = "The call was not run: its turn ended before.";
const UNKNOWN = '[{"type":"text","text":"The call broke off, and whether it took effect is unknown."}]';

/** A session whose model has called the server's tool, its policy applied. */
async function called(policy: "always_allow" | "always_ask", ...inputs: readonly object[]) {
  session = await hand.open([], [{ ...SERVER_TOOL, policy }]);
  hand.replies.push(answers("tool_use", ...inputs.map((input, index) => use(`toolu_${index}`, "fetch_page", input))));
  await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  const gated = await gateTools(hand.product, ref);
  return { ref, gated, steps: await session.steps() };
}

const results = async () => (await session.events()).filter(({ type }) => type === "agent.tool_result");
const leases = async () =>
  (
    await hand.database.pool.query(
      "select state, run_owner, lease_expires_at > now() as live from tool_steps where session_id = $1 order by position",
      [session.id],
    )
  ).rows;
const journaledKeys = async () =>
  (
    await hand.database.pool.query("select idempotency_key from tool_steps where session_id = $1 order by position", [
      session.id,
    ])
  ).rows.map((row) => row.idempotency_key);
const expireLeases = () => hand.database.pool.query("update tool_steps set lease_expires_at = now() - interval '1 s'");

test("an allowed call is prepared, started, completed; its key is journaled before it is dispatched (F04), its result published once", async () => {
  const { ref, gated, steps } = await called("always_allow", { url: "a" });
  const stepId = steps[0]?.id ?? "";
  expect(gated).toEqual({ ...ref, run: [stepId], round: 1, next: "continue" });
  expect(await leases()).toEqual([{ state: "prepared", run_owner: null, live: null }]);
  hand.runTool = async (call) => {
    ran.push(call);
    expect(await leases()).toEqual([{ state: "started", run_owner: "by-hand", live: true }]);
    expect(await journaledKeys()).toEqual([call.idempotencyKey]);
    return { content: '[{"type":"text","text":"a page"}]', isError: false };
  };

  await runTool(hand.product, { ...ref, stepId });

  expect(ran).toMatchObject([{ name: "fetch_page", input: '{"url":"a"}', idempotencyKey: stepId }]);
  expect(await session.steps()).toMatchObject([
    { state: "completed", result: '[{"type":"text","text":"a page"}]', is_error: false },
  ]);
  expect(await results()).toMatchObject([
    { payload: { content: [{ type: "text", text: "a page" }], is_error: false } },
  ]);
  hand.replies.push(answers("end_turn", text("Read.")));
  await callModel(hand.product, ref);
  expect(JSON.parse(hand.requests.at(-1) ?? "").messages.at(-1)).toEqual({
    role: "user",
    content: [{ type: "tool_result", tool_use_id: "toolu_0", content: [{ type: "text", text: "a page" }] }],
  });
});

test("a call that is completed is not run again", async () => {
  const { ref, steps } = await called("always_allow", {});
  const input = { ...ref, stepId: steps[0]?.id ?? "" };
  await runTool(hand.product, input);
  await runTool(hand.product, input);
  expect(ran).toHaveLength(1);
  expect(await results()).toHaveLength(1);
});

test("while one invocation runs the call another one is told to come back", async () => {
  const { ref, steps } = await called("always_allow", {});
  const input = { ...ref, stepId: steps[0]?.id ?? "" };
  const started = Promise.withResolvers<void>();
  const page = Promise.withResolvers<{ content: string; isError: boolean }>();
  hand.runTool = (call) => {
    ran.push(call);
    started.resolve();
    return page.promise;
  };
  const first = runTool(hand.product, input);
  await started.promise;

  await expect(runTool(hand.product, input)).rejects.toThrow(TurnBusyError);

  page.resolve({ content: "[]", isError: false });
  await first;
  expect(ran).toHaveLength(1);
  expect(await session.steps()).toMatchObject([{ state: "completed" }]);
});

test("a call whose process was lost is ambiguous: never run twice, and the model is told (F03)", async () => {
  const { ref, steps } = await called("always_allow", {});
  const input = { ...ref, stepId: steps[0]?.id ?? "" };
  const started = Promise.withResolvers<void>();
  const page = Promise.withResolvers<{ content: string; isError: boolean }>();
  hand.runTool = (call) => {
    ran.push(call);
    started.resolve();
    return page.promise;
  };
  const lost = runTool(hand.product, input);
  await started.promise;
  await expireLeases();

  await runTool(hand.product, input);

  expect(ran).toHaveLength(1);
  expect(await session.steps()).toMatchObject([{ state: "ambiguous", result: UNKNOWN, is_error: true }]);
  expect(await results()).toMatchObject([{ payload: { is_error: true } }]);
  // The lost one was only slow: its result comes too late to count.
  page.resolve({ content: '[{"type":"text","text":"a page"}]', isError: false });
  await lost;
  expect(await session.steps()).toMatchObject([{ state: "ambiguous", result: UNKNOWN, is_error: true }]);
  expect(await results()).toHaveLength(1);
  hand.replies.push(answers("end_turn", text("I see.")));
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  expect(JSON.parse(hand.requests.at(-1) ?? "").messages.at(-1).content).toMatchObject([
    { type: "tool_result", tool_use_id: "toolu_0", is_error: true },
  ]);
});

/** A call that runs until the test answers it, with what it was given. */
async function running() {
  const { ref, steps } = await called("always_allow", {});
  const input = { ...ref, stepId: steps[0]?.id ?? "" };
  const started = Promise.withResolvers<ToolCall>();
  const page = Promise.withResolvers<{ content: string; isError: boolean }>();
  hand.runTool = (call) => {
    started.resolve(call);
    return page.promise;
  };
  const ended = runTool({ ...hand.product, leaseSeconds: 3 }, input);
  return { input, call: await started.promise, page, ended };
}

test("the lease of a call is seconds long, and kept while the call runs", async () => {
  const { page, ended } = await running();
  await expireLeases();
  await expect.poll(leases, { timeout: 10_000 }).toEqual([{ state: "started", run_owner: "by-hand", live: true }]);
  const { rows } = await hand.database.pool.query(
    "select lease_expires_at < now() + interval '4 s' as soon from tool_steps where session_id = $1",
    [session.id],
  );
  expect(rows).toEqual([{ soon: true }]);
  page.resolve({ content: "[]", isError: false });
  await ended;
  expect(await session.steps()).toMatchObject([{ state: "completed" }]);
});

test("a server that starts alone judges at once what an earlier one was running", async () => {
  const { input, page, ended } = await running();
  await expireAllLeases(hand.database.pool);

  await runTool(hand.product, input);

  expect(await session.steps()).toMatchObject([{ state: "ambiguous", result: UNKNOWN }]);
  page.resolve({ content: "[]", isError: false });
  await ended;
});

test("an interrupt reaches a call that is under way", async () => {
  const { call, page, ended } = await running();
  expect(call.signal.aborted).toBe(false);
  await session.send({ type: "user.interrupt" });
  await expect.poll(() => call.signal.aborted, { timeout: 10_000 }).toBe(true);
  page.reject(call.signal.reason);
  await ended;
  expect((await session.types()).at(-1)).toBe("session.status_idle");
});

test("an executor that throws leaves the call ambiguous and its sibling alone", async () => {
  const { ref, steps } = await called("always_allow", { url: "broken" }, { url: "fine" });
  hand.runTool = async (call) => {
    if (call.input.includes("broken")) throw new TypeError("The socket was closed.");
    return { content: "[]", isError: false };
  };
  await Promise.all(steps.map((step) => runTool(hand.product, { ...ref, stepId: step.id })));
  expect(await session.steps()).toMatchObject([
    { state: "ambiguous", result: UNKNOWN, is_error: true },
    { state: "completed", result: "[]", is_error: false },
  ]);
});

test("a call of an interrupted turn is not begun", async () => {
  const { ref, steps } = await called("always_allow", {});
  await session.send({ type: "user.interrupt" });
  await runTool(hand.product, { ...ref, stepId: steps[0]?.id ?? "" });
  expect(ran).toEqual([]);
  // Of this one it is known, and said, that nothing happened.
  expect(await session.steps()).toMatchObject([{ state: "completed", is_error: true }]);
  expect(await results()).toMatchObject([{ payload: { is_error: true, content: [{ text: NOT_RUN }] } }]);
});

test("a call that nobody had allowed is closed as not run, whoever would have run it; an allowed one as unknown", async () => {
  session = await hand.open([toolset(ask("bash"))], [{ ...SERVER_TOOL, policy: "always_ask" }]);
  hand.replies.push(
    answers(
      "tool_use",
      use("toolu_0", "bash"),
      use("toolu_1", "bash"),
      use("toolu_2", "read"),
      use("toolu_3", "fetch_page"),
    ),
  );
  await session.send(go);
  const ref = await session.ref();
  await callModel(hand.product, ref);
  await gateTools(hand.product, ref);
  const [, allowed] = await session.waiting();
  await session.send({ type: "user.tool_confirmation", tool_use_id: allowed, result: "allow" });

  await session.send({ type: "user.interrupt" });

  expect((await session.steps()).map(({ state }) => state)).toEqual([
    "completed",
    "ambiguous",
    "ambiguous",
    "completed",
  ]);
  const closed = (await session.events()).filter(({ type }) => type.endsWith("tool_result"));
  expect(closed.map(({ type, payload }) => [type, payload.content[0].text === NOT_RUN])).toEqual([
    ["user.tool_result", true],
    ["user.tool_result", false],
    ["user.tool_result", false],
    ["agent.tool_result", true],
  ]);
});

test("a result that comes after an interrupt is not published: the call was closed, and the session is quiet", async () => {
  const { ref, steps } = await called("always_allow", {});
  const started = Promise.withResolvers<void>();
  const page = Promise.withResolvers<{ content: string; isError: boolean }>();
  hand.runTool = () => {
    started.resolve();
    return page.promise;
  };
  const running = runTool(hand.product, { ...ref, stepId: steps[0]?.id ?? "" });
  await started.promise;
  await session.send({ type: "user.interrupt" });
  const before = await session.events();

  page.resolve({ content: "[]", isError: false });
  await running;

  expect(await session.events()).toEqual(before);
  expect(before.at(-1)?.type).toBe("session.status_idle");
  expect(await session.steps()).toMatchObject([{ state: "ambiguous", is_error: true }]);
});

test("a result that comes after the turn was taken over is published before the next round is asked", async () => {
  const { ref, steps } = await called("always_allow", {});
  const input = { ...ref, stepId: steps[0]?.id ?? "" };
  const started = Promise.withResolvers<void>();
  const page = Promise.withResolvers<{ content: string; isError: boolean }>();
  hand.runTool = () => {
    started.resolve();
    return page.promise;
  };
  const running = runTool(hand.product, input);
  await started.promise;
  await executionLost(hand.product, ref);
  const next = await session.ref();
  expect(next.segment).toBe(2);
  await expect(runTool(hand.product, { ...input, ...next })).rejects.toThrow(TurnBusyError);

  page.resolve({ content: '[{"type":"text","text":"a page"}]', isError: false });
  await running;
  await runTool(hand.product, { ...input, ...next });
  hand.replies.push(answers("end_turn", text("Read.")));
  expect(await callModel(hand.product, next)).toEqual({ ...next, next: "end" });

  expect((await session.types()).slice(-5)).toEqual([
    "span.model_request_end",
    "agent.tool_result",
    "span.model_request_start",
    "agent.message",
    "span.model_request_end",
  ]);
  expect(await results()).toMatchObject([{ payload: { content: [{ type: "text", text: "a page" }] } }]);
});

test("a call of another turn, or of none, is nobody's", async () => {
  const { steps } = await called("always_allow", {});
  const foreign = steps[0]?.id ?? "";
  const { ref } = await called("always_allow", {});
  await runTool(hand.product, { ...ref, stepId: foreign });
  await runTool(hand.product, { ...ref, stepId: "step_none" });
  expect(ran).toEqual([]);
});

test("a call that needs approval runs after it and not before", async () => {
  const { ref, gated, steps } = await called("always_ask", {});
  expect(gated).toEqual({ ...ref, run: [], round: 1, next: "wait" });
  const [eventId] = await session.waiting();
  await session.send({ type: "user.tool_confirmation", tool_use_id: eventId, result: "allow" });
  expect(await gateTools(hand.product, ref)).toEqual({ ...ref, run: [steps[0]?.id], round: 1, next: "continue" });
  await runTool(hand.product, { ...ref, stepId: steps[0]?.id ?? "" });
  expect(ran).toHaveLength(1);
});

test("a call whose handler never comes to its end is handed out three times more and then given up, not run for ever", async () => {
  const { ref, steps } = await called("always_allow", {});
  const run = [steps[0]?.id];
  for (let pass = 0; pass < 3; pass += 1) {
    expect(await gateTools(hand.product, ref)).toEqual({ ...ref, run, round: 1, next: "continue" });
  }

  expect(await gateTools(hand.product, ref)).toEqual({ ...ref, run: [], round: 1, next: "continue" });

  expect(ran).toEqual([]);
  expect(await session.steps()).toMatchObject([{ state: "completed", is_error: true }]);
  expect(await results()).toMatchObject([
    {
      payload: {
        content: [{ type: "text", text: "fetch_page could not be run because of an internal error." }],
        is_error: true,
      },
    },
  ]);
  hand.replies.push(answers("end_turn", text("I see.")));
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
});

test("a late GateTools of a round that was followed by one without calls changes nothing", async () => {
  const { ref, steps } = await called("always_allow", {});
  await runTool(hand.product, { ...ref, stepId: steps[0]?.id ?? "" });
  hand.replies.push(answers("end_turn", text("Read.")));
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  const before = await session.events();

  await gateTools(hand.product, ref);

  expect(await session.events()).toEqual(before);
  const rounds = await hand.database.pool.query("select state from rounds where turn_id = $1 order by number", [
    ref.turnId,
  ]);
  expect(rounds.rows).toEqual([{ state: "gated" }, { state: "answered" }]);
});

test("no state's output grows with what a tool answers or a model asks for (F21)", async () => {
  const large = JSON.stringify([text("x".repeat(2_000_000))]);
  hand.runTool = async () => ({ content: large, isError: false });
  session = await hand.open([], [{ ...SERVER_TOOL, policy: "always_allow" }]);
  const calls = Array.from({ length: 128 }, (_, n) => use(`toolu_${n}`, "fetch_page", { url: "x".repeat(10_000) }));
  hand.replies.push(answers("tool_use", ...calls));
  await session.send(go);
  const ref = await session.ref();
  const outputs: unknown[] = [await callModel(hand.product, ref), await gateTools(hand.product, ref)];
  const [first] = await session.steps();
  outputs.push(await runTool(hand.product, { ...ref, stepId: first?.id ?? "" }), await gateTools(hand.product, ref));
  expect(outputs.map((output) => (JSON.stringify(output) ?? "").length).every((length) => length < 2048)).toBe(true);
  expect((await session.steps())[0]?.result).toBe(large);
});
