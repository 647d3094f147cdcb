import { afterAll, beforeAll, expect, test } from "vitest";
import { ask, customTool, toolset } from "../../test/e2e/session-driver.ts";
import { answers, type ByHand, type HandSession, startByHand, use } from "../../test/faults/by-hand.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import { actionsOfSteps } from "../permissions/barrier.ts";
import { callModel } from "../turns/call-model.ts";
import { gateTools } from "../turns/gate-tools.ts";
import { runnableCalls } from "./open-calls.ts";

let hand: ByHand;
let session: HandSession;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());

const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
const runnable = async () => (await runnableCalls(hand.database.pool, session.id)).length > 0;

async function waitingFor(name: string): Promise<string> {
  session = await hand.open([toolset(ask("bash")), customTool("lookup")]);
  hand.replies.push(answers("tool_use", use("toolu_1", name, { command: "ls" })));
  await session.send(go);
  await callModel(hand.product, await session.ref());
  await gateTools(hand.product, await session.ref());
  const [eventId] = await session.waiting();
  return eventId ?? "";
}

test("a worker may run a call from its publication, or from its approval where it asked, to its result", async () => {
  await waitingFor("read");
  expect(await runnable()).toBe(true);
  const eventId = await waitingFor("bash");
  expect(await runnable()).toBe(false);
  await session.send({ type: "user.tool_confirmation", tool_use_id: eventId, result: "allow" });
  expect(await runnable()).toBe(true);
  await session.send({ type: "user.tool_result", tool_use_id: eventId });
  expect(await runnable()).toBe(false);
});

test("a denied call, an interrupted one and the application's are none of the worker's", async () => {
  const denied = await waitingFor("bash");
  await session.send({ type: "user.tool_confirmation", tool_use_id: denied, result: "deny" });
  expect(await runnable()).toBe(false);
  await waitingFor("read");
  expect(await runnable()).toBe(true);
  await session.send({ type: "user.interrupt" });
  expect(await runnable()).toBe(false);
  await waitingFor("lookup");
  expect(await runnable()).toBe(false);
});

test("neither look at the barrier grows with the session's past: both go by an index to the few rows they need", async () => {
  await waitingFor("read");
  const { pool } = hand.database;
  const [step] = await session.steps();
  // One long-lived session with thousands of answered calls.
  await pool.query(
    `with step as (
       insert into tool_steps (id, workspace_id, session_id, turn_id, round, position, event_id, provider_tool_use_id, name,
                               input, input_digest, owner, state, idempotency_key, created_at)
       select 'past_' || n, workspace_id, session_id, turn_id, round, n, 'past_' || n, 'past_' || n, name, input,
              input_digest, owner, 'completed', 'past_' || n, created_at
         from tool_steps, generate_series(1, 20000) n where id = $1 returning *
     )
     insert into pending_actions (session_id, event_id, need, workspace_id, turn_id, step_id, resolution,
                                  resolved_by_event_id, created_at, resolved_at)
     select session_id, event_id, 'result', workspace_id, turn_id, id, 'result', event_id, created_at, created_at from step`,
    [step?.id],
  );
  await pool.query("analyze");

  const plans = await inTransaction(pool, async (transaction) => {
    const explained = explaining(transaction);
    await runnableCalls(explained.transaction, session.id);
    await actionsOfSteps(explained.transaction, session.id, [{ eventId: "past_7" }, { eventId: "past_8" }]);
    return explained.plans;
  });

  expect(plans.map((nodes) => nodes.filter(({ table }) => table === "pending_actions"))).toEqual([
    [
      { table: "pending_actions", index: "pending_actions_open", rowsRead: 1 },
      { table: "pending_actions", index: "pending_actions_pkey", rowsRead: 0 },
    ],
    [{ table: "pending_actions", index: "pending_actions_pkey", rowsRead: 2 }],
  ]);
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

interface Read {
  readonly table: string;
  readonly index: string | null;
  readonly rowsRead: number;
}

/** The tables that a plan reads, by which index, and how many rows of each. */
function reads(node: PlanNode): Read[] {
  const children = node.Plans ?? [];
  const bitmap = children.find((child) => child["Node Type"] === "Bitmap Index Scan");
  const own = {
    table: node["Relation Name"] ?? "",
    index: node["Index Name"] ?? bitmap?.["Index Name"] ?? null,
    rowsRead: node["Actual Loops"] * (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0)),
  };
  return [...(own.table === "" ? [] : [own]), ...children.flatMap(reads)];
}

/** A transaction whose queries are run for their plans only. */
function explaining(transaction: Transaction) {
  const plans: Read[][] = [];
  const explained = {
    query: async (sql: string, values?: readonly unknown[]) => {
      const { rows } = await transaction.query<{ "QUERY PLAN": { Plan: PlanNode }[] }>(
        `explain (analyze, timing off, format json) ${sql}`,
        values,
      );
      plans.push(rows.flatMap((row) => row["QUERY PLAN"].flatMap(({ Plan }) => reads(Plan))));
      return { rows: [], rowCount: 0 };
    },
  };
  return { transaction: explained as unknown as Transaction, plans };
}
