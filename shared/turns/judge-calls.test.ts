import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { customTool, toolset } from "../../test/e2e/session-driver.ts";
import {
  answers,
  type ByHand,
  type HandSession,
  later,
  SERVER_TOOL,
  startByHand,
  text,
  use,
} from "../../test/faults/by-hand.ts";
import { isBusy } from "../journal/provider-calls.ts";
import { ModelAborted } from "../model/model.ts";
import { ReceiptConflict } from "../permissions/receipts.ts";
import { callModel } from "./call-model.ts";
import { gateTools } from "./gate-tools.ts";
import { runTool } from "./run-tool.ts";

let hand: ByHand;
let session: HandSession;
let ref: { turnId: string; segment: number };
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());

const auto = (name: string) => ({ name, permission_policy: { type: "auto" } });
const AUTO = [toolset(auto("bash"), auto("read")), customTool("lookup")];
const say = (words: string) => ({ type: "user.message", content: [text(words)] });
const judged = (judgment: object) => answers("end_turn", text(JSON.stringify(judgment)));
const ALLOW = judged({ permission: "allow" });
const ASK = judged({ permission: "ask", reason_code: "indeterminate" });
const DENY = judged({ permission: "deny", reason_code: "high_risk" });

/** A turn whose model has called these tools; nothing is judged yet. */
async function called(...calls: readonly [name: string, input: object][]) {
  session = await hand.open(AUTO);
  hand.replies.push(answers("tool_use", ...calls.map(([name, input], n) => use(`toolu_${n}`, name, input))));
  await session.send(say("Tidy the folder."));
  ref = await session.ref();
  await callModel(hand.product, ref);
}
beforeEach(async () => {
  hand.replies.splice(0);
  hand.orchestrator = { start: async () => "started", release: async () => "released" };
});

const uses = async () =>
  (await session.events())
    .filter(({ type }) => type === "agent.tool_use")
    .map(({ payload: { name, evaluated_permission, evaluation } }) => ({ name, evaluated_permission, evaluation }));
const evaluations = async () =>
  (
    await hand.database.pool.query(
      `select standing, permission, reason_code, fallback, input_tokens::int, output_tokens::int from permission_evaluations
        where session_id = $1 order by created_at, id`,
      [session.id],
    )
  ).rows;
const envelopeOf = (body: string | undefined) => JSON.parse(JSON.parse(body ?? "").messages[0].content[0].text);
const HALF = {
  inputTokens: 5,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};
const ls = ["bash", { command: "ls" }] as [string, object];

test("allow: the call is published for the worker, with the judgment and nothing private", async () => {
  await called(ls);
  hand.replies.push(ALLOW);
  expect(await gateTools(hand.product, ref)).toMatchObject({ run: [], next: "wait" });
  expect(await uses()).toEqual([
    {
      name: "bash",
      evaluated_permission: "allow",
      evaluation: { type: "auto", evaluated_permission: { type: "allow" } },
    },
  ]);
  const [published] = (await session.events()).filter(({ type }) => type === "agent.tool_use");
  expect(Object.keys(published?.payload).sort()).toEqual([
    "evaluated_permission",
    "evaluation",
    "idempotency_key",
    "input",
    "name",
  ]);
});

test("ask: the turn waits for a person and says why; a confirmation does not judge again", async () => {
  await called(ls);
  hand.replies.push(ASK);
  expect(await gateTools(hand.product, ref)).toMatchObject({ next: "wait" });
  expect(await uses()).toEqual([
    {
      name: "bash",
      evaluated_permission: "ask",
      evaluation: { type: "auto", evaluated_permission: { type: "ask", reason_code: "indeterminate" } },
    },
  ]);
  const asked = hand.requests.length;
  const [eventId] = await session.waiting();
  await session.send({ type: "user.tool_confirmation", tool_use_id: eventId, result: "allow" });
  await gateTools(hand.product, ref);
  expect(hand.requests.length).toBe(asked);
  expect(await evaluations()).toHaveLength(1);
});

test("deny: nobody is asked, the model is told, and the turn goes on", async () => {
  await called(ls);
  hand.replies.push(DENY);
  expect(await gateTools(hand.product, ref)).toEqual({ ...ref, run: [], round: 1, next: "continue" });
  expect(await uses()).toEqual([
    {
      name: "bash",
      evaluated_permission: "deny",
      evaluation: { type: "auto", evaluated_permission: { type: "deny", reason_code: "high_risk" } },
    },
  ]);
  const [use] = (await session.events()).filter(({ type }) => type === "agent.tool_use");
  await expect(
    session.send({ type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" }),
  ).rejects.toMatchObject({ status: 400 });
  hand.replies.push(answers("end_turn", text("I may not.")));
  expect(await callModel(hand.product, ref)).toEqual({ ...ref, next: "end" });
  expect(JSON.parse(hand.requests.at(-1) ?? "").messages.at(-1).content).toEqual([
    {
      type: "tool_result",
      tool_use_id: "toolu_0",
      content: [{ type: "text", text: "Permission to use bash has been denied." }],
      is_error: true,
    },
  ]);
});

test("the calls of one round are judged side by side, each on its own; what is not auto is not judged", async () => {
  await called(ls, ["read", { file_path: "a" }], ["lookup", { q: "x" }]);
  const [first, second] = [later(ALLOW), later(ASK)];
  hand.replies.push(first.reply, second.reply);
  const gating = gateTools(hand.product, ref);
  await Promise.all([first.asked, second.asked]);
  first.release();
  second.release();
  await gating;
  expect((await uses()).map((use) => use.evaluated_permission).sort()).toEqual(["allow", "ask"]);
  expect(await evaluations()).toHaveLength(2);
  expect(hand.requests.slice(-2).map((body) => envelopeOf(body).call)).toEqual([
    { tool: "bash", input: { command: "ls" } },
    { tool: "read", input: { file_path: "a" } },
  ]);
});

test("its cost is the session's, saved with it", async () => {
  await called(ls);
  const before = await session.usage();
  hand.replies.push(ALLOW);
  await gateTools(hand.product, ref);
  expect(await evaluations()).toEqual([
    { standing: "receipt", permission: "allow", reason_code: null, fallback: null, input_tokens: 11, output_tokens: 7 },
  ]);
  expect(before).toEqual({ input_tokens: 11, output_tokens: 7 });
  expect(await session.usage()).toEqual({ input_tokens: 22, output_tokens: 14 });
});

test("two evaluations race for one call: the first saved counts for both, and both are paid for", async () => {
  await called(ls);
  const [first, second] = [later(DENY), later(ALLOW)];
  hand.replies.push(first.reply, second.reply);
  const one = gateTools(hand.product, ref);
  await first.asked;
  const two = gateTools(hand.product, ref);
  await second.asked;
  first.release();
  await one;
  second.release();
  await two;
  expect(await evaluations()).toMatchObject([
    { standing: "receipt", permission: "deny" },
    { standing: "surplus", permission: "allow" },
  ]);
  expect(await uses()).toMatchObject([{ evaluated_permission: "deny" }]);
  expect(await session.usage()).toEqual({ input_tokens: 33, output_tokens: 21 });
});

test("a process that dies after the receipt finds it again and does not judge anew", async () => {
  await called(ls);
  hand.replies.push(DENY);
  await expect(gateTools(dyingAtTransaction(3), ref)).rejects.toThrow("the process died");
  expect(await evaluations()).toMatchObject([{ standing: "receipt", permission: "deny" }]);
  expect(await uses()).toEqual([]);
  const asked = hand.requests.length;
  await gateTools(hand.product, ref);
  expect(hand.requests.length).toBe(asked);
  expect(await uses()).toMatchObject([{ evaluated_permission: "deny" }]);
});

test("a process that dies before the receipt leaves nothing that could execute: the call is judged anew", async () => {
  await called(ls);
  hand.replies.push(ALLOW);
  await expect(gateTools(dyingAtTransaction(2), ref)).rejects.toThrow("the process died");
  expect([await evaluations(), await uses()]).toEqual([[], []]);
  hand.replies.push(DENY);
  await gateTools(hand.product, ref);
  expect(await uses()).toMatchObject([{ evaluated_permission: "deny" }]);
});

test("an interrupt cancels the turn, not only the judgment; the late cost is counted, and nothing is revived", async () => {
  await called(ls);
  const late = later(ALLOW);
  hand.replies.push(late.reply);
  const gating = gateTools(hand.product, ref);
  await late.asked;
  await session.send({ type: "user.interrupt" });
  const before = await session.events();
  late.release();
  expect(await gating).toMatchObject({ next: "stop" });
  expect(await session.events()).toEqual(before);
  expect(before.at(-1)?.type).toBe("session.status_idle");
  expect(await evaluations()).toMatchObject([{ standing: "surplus" }]);
  expect(await session.usage()).toEqual({ input_tokens: 22, output_tokens: 14 });
});

test("an interrupt reaches a request that hangs: it is cancelled, and what is known of its cost is kept", async () => {
  await called(ls);
  const asked = Promise.withResolvers<void>();
  hand.replies.push(({ signal }) => {
    asked.resolve();
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(new ModelAborted(HALF)), { once: true });
    });
  });
  const gating = gateTools(hand.product, ref);
  await asked.promise;
  await session.send({ type: "user.interrupt" });
  expect(await gating).toMatchObject({ next: "stop" });
  expect(await evaluations()).toMatchObject([{ standing: "surplus", fallback: "cancelled", input_tokens: 5 }]);
  expect(await session.usage()).toEqual({ input_tokens: 16, output_tokens: 7 });
});

test("a judgment that cannot be saved cancels its siblings; the state's next try judges the rest", async () => {
  await called(ls, ["read", { file_path: "a" }]);
  const cancelled = Promise.withResolvers<void>();
  hand.replies.push(ALLOW, ({ signal }) => {
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(new ModelAborted(null)), { once: true });
      signal.addEventListener("abort", () => cancelled.resolve(), { once: true });
    });
  });
  await expect(gateTools(dyingAtTransaction(2), ref)).rejects.toThrow("the process died");
  await cancelled.promise;
  hand.replies.push(ALLOW, ASK);
  await gateTools(hand.product, ref);
  expect((await uses()).map((use) => use.evaluated_permission)).toEqual(["allow", "ask"]);
});

test("while calls are judged the turn is not taken for lost", async () => {
  await called(ls);
  const late = later(ALLOW);
  hand.replies.push(late.reply);
  const gating = gateTools(hand.product, ref);
  await late.asked;
  const { pool } = hand.database;
  expect(await isBusy(pool, ref.turnId)).toBe(true);
  late.release();
  await gating;
  expect(await isBusy(pool, ref.turnId)).toBe(false);
});

test("a receipt for another input lets nothing be published, and a second judgment of it conflicts", async () => {
  await called(ls);
  hand.replies.push(ALLOW);
  await expect(gateTools(dyingAtTransaction(3), ref)).rejects.toThrow("the process died");
  await hand.database.pool.query('update tool_steps set input = \'{"command":"rm -rf ~"}\' where session_id = $1', [
    session.id,
  ]);
  await expect(gateTools(hand.product, ref)).rejects.toThrow(ReceiptConflict);
  expect(await uses()).toEqual([]);
});

test.each([
  ["allow", 1],
  ["deny", 0],
] as const)(
  "a server-side call that the evaluator was unsure of waits for a person: %s runs it %i times",
  async (result, times) => {
    let ran = 0;
    hand.runTool = async () => {
      ran += 1;
      return { content: "[]", isError: false };
    };
    session = await hand.open([], [{ ...SERVER_TOOL, policy: "auto" }]);
    hand.replies.push(answers("tool_use", use("toolu_0", "fetch_page", { url: "http://a" })), ASK);
    await session.send(say("Fetch it."));
    ref = await session.ref();
    await callModel(hand.product, ref);
    expect(await gateTools(hand.product, ref)).toMatchObject({ run: [], next: "wait" });
    const [step] = await session.steps();
    await session.send({ type: "user.tool_confirmation", tool_use_id: (await session.waiting())[0], result });
    const { run } = await gateTools(hand.product, ref);
    expect(run).toEqual(result === "allow" ? [step?.id] : []);
    for (const stepId of run) await runTool(hand.product, { ...ref, stepId });
    expect(ran).toBe(times);
  },
);

test("a server-side call runs only as it was judged: another input, another verdict or none, and it is refused", async () => {
  const ran: string[] = [];
  hand.runTool = async (call) => {
    ran.push(call.input);
    return { content: "[]", isError: false };
  };
  const tampered = [
    'update tool_steps set input = \'{"url":"http://evil"}\' where id = $1',
    "update tool_steps set permission = 'deny' where id = $1",
    "update tool_steps set permission = null where id = $1",
    "update tool_steps set permission = 'ask' where id = $1",
    "update permission_evaluations set standing = 'surplus' where step_id = $1",
  ];
  await hand.database.pool.query("alter table permission_evaluations disable trigger permission_evaluations_no_update");
  for (const change of [null, ...tampered]) {
    session = await hand.open([], [{ ...SERVER_TOOL, policy: "auto" }]);
    hand.replies.push(answers("tool_use", use("toolu_0", "fetch_page", { url: "http://good" })), ALLOW);
    await session.send(say("Fetch it."));
    ref = await session.ref();
    await callModel(hand.product, ref);
    const { run } = await gateTools(hand.product, ref);
    const stepId = run[0] ?? "";
    if (change !== null) await hand.database.pool.query(change, [stepId]);
    await runTool(hand.product, { ...ref, stepId });
    expect((await session.steps())[0]).toMatchObject({ state: "completed", is_error: change !== null });
  }
  expect(ran).toEqual(['{"url":"http://good"}']);
});

/** The product, whose nth transaction is the first that is never begun: the process died before. */
function dyingAtTransaction(nth: number): typeof hand.product {
  let begun = 0;
  const connect = async () => {
    begun += 1;
    if (begun >= nth) throw new Error("the process died");
    return hand.database.pool.connect();
  };
  const database = { connect, query: hand.database.pool.query.bind(hand.database.pool) };
  return { ...hand.product, database: database as unknown as typeof hand.product.database };
}
