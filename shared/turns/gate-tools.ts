import type { GateOutput, TurnRef } from "../../statemachines/turn-payload.ts";
import { derivedId } from "../contract/ids.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import { countPasses, setPermissions, settleStep, stepsOfRound, type ToolStep } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { actionsOfSteps, raiseBarrier, runnableSteps, waitingEventIds } from "../permissions/barrier.ts";
import { deniedText, judge, type Need, needsOf, type Verdict } from "../permissions/gate.ts";
import { type Receipt, ReceiptConflict, receiptsOf } from "../permissions/receipts.ts";
import type { Product } from "../product.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { ensureWork } from "../work/ensure-work.ts";
import { spanEnd } from "./begin-round.ts";
import { inputDigest, isJudged, judgeCalls, type UnjudgedCalls, unjudgedCalls } from "./judge-calls.ts";
import { callUsage, latestRound, setRoundState } from "./rounds.ts";
import { CALL_EVENTS, CALLS_PER_PASS } from "./segment-budget.ts";
import { TurnBusyError } from "./turn-errors.ts";
import { addSegmentEvents, lockTurn, markBusy, setTurnState, type TurnRow } from "./turn-row.ts";

/**
 * The handler of state GateTools: has the calls under `auto` judged, applies the pinned policy to every call of the
 * round, publishes the calls, and writes the barrier and the idle status in the same transaction, so that whoever sees a call can answer it.
 *
 * Invoked again for a gated round it only tells what may run and whether the turn waits.
 */
export async function gateTools(product: Product, ref: TurnRef): Promise<GateOutput> {
  let gated = await inTransaction(product.database, (transaction) => gate(transaction, ref, product.traceId?.()));
  if ("unjudged" in gated) {
    await judgeCalls(product, ref, gated.unjudged);
    gated = await inTransaction(product.database, (transaction) => gate(transaction, ref, product.traceId?.()));
  }
  if ("unjudged" in gated) {
    // Somebody else's call came to this round meanwhile, or a judgment was given up: the state's Retry looks again.
    throw new TurnBusyError(ref.turnId);
  }
  if (gated.sessionId !== null) {
    void product.live.publish(gated.sessionId, { type: "wake" });
  }
  if (gated.environmentId !== null) {
    void product.live.publish(gated.environmentId, { type: "wake" });
  }
  return gated.output;
}

interface Gated {
  readonly output: GateOutput;
  /** Topics to wake after the commit; null for none. */
  readonly sessionId: string | null;
  readonly environmentId: string | null;
}

async function gate(
  transaction: Transaction,
  ref: TurnRef,
  traceId: string | undefined,
): Promise<Gated | { readonly unjudged: UnjudgedCalls }> {
  const quiet = { sessionId: null, environmentId: null };
  const locked = await lockTurn(transaction, ref);
  const round = locked === null ? null : await latestRound(transaction, ref.turnId);
  if (locked === null || !locked.owned || round === null) {
    return { ...quiet, output: { ...ref, run: [], round: 0, next: "stop" } };
  }
  const { session, turn } = locked;
  const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
  const unit = new SessionUnit(transaction, session);
  // A round without calls has nothing to gate: this handler is late, of a round before.
  if (round.state !== "answered" || steps.length === 0) {
    const stand = await standing(transaction, session.id, round.number, steps);
    const run = await handOutAgain(
      transaction,
      unit,
      turn,
      steps.filter((step) => stand.run.includes(step.id)),
    );
    return { ...quiet, output: { ...ref, ...stand, run } };
  }

  const judgeable = steps.filter((step) => isJudged(session, step));
  const receipts = await receiptsOf(transaction, judgeable);
  const unjudged = await unjudgedCalls(transaction, locked, judgeable, receipts);
  if (unjudged !== null) {
    return { unjudged };
  }
  if (judgeable.length > 0) {
    await markBusy(transaction, turn.id, 0);
  }
  const judged = steps.map((step) => ({ step, verdict: verdictOf(session, step, receipts.get(step.id)) }));
  await setPermissions(
    transaction,
    judged.map(({ step, verdict }) => ({ stepId: step.id, permission: verdict.permission })),
  );
  for (const { step, verdict } of judged) {
    unit.append({ id: step.eventId, threadId: turn.threadId, ...useEvent(step, verdict, traceId) });
  }
  for (const { step, verdict } of judged) {
    if (verdict.permission === "deny") {
      await refuse(transaction, unit, turn.threadId, step, refusalText(session, step));
    }
  }
  unit.append(
    spanEnd({
      callId: round.call.id,
      spanEventId: round.call.spanEventId,
      threadId: turn.threadId,
      isError: false,
      usage: await callUsage(transaction, round.call.id),
    }),
  );
  const needs = judged.flatMap(({ step, verdict }) =>
    needsOf(verdict.permission, step.owner).map((need: Need) => ({ eventId: step.eventId, stepId: step.id, need })),
  );
  let queued = false;
  if (needs.length > 0) {
    await raiseBarrier(transaction, { workspaceId: turn.workspaceId, sessionId: session.id, turnId: turn.id }, needs);
    await setTurnState(transaction, { turnId: turn.id, state: "parked" });
    unit.idle(turn.threadId, round.call.id, {
      type: "requires_action",
      eventIds: [...new Set(needs.map((need) => need.eventId))],
    });
    queued = await ensureWork(transaction, session);
  }
  await setRoundState(transaction, { turnId: turn.id, number: round.number, state: "gated" });
  await unit.flush();
  const run = judged
    .filter(({ step, verdict }) => step.owner === "platform_managed" && verdict.permission === "allow")
    .map(({ step }) => step.id);
  if (run.length > 0) {
    await addSegmentEvents(transaction, turn.id, run.length * CALL_EVENTS);
  }
  return {
    output: {
      ...ref,
      run: run.slice(0, CALLS_PER_PASS),
      round: round.number,
      next: needs.length > 0 ? "wait" : "continue",
    },
    sessionId: session.id,
    environmentId: queued ? session.environmentId : null,
  };
}

/** A call that RunTools was given this often without a result is given up. */
const MAX_PASSES = 3;

/**
 * Hands calls to RunTools that are still without a result, each a few times at most: a handler that never comes to its
 * end would otherwise be invoked for ever. A call that was never started is refused; of a started one nobody knows.
 */
async function handOutAgain(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  steps: readonly ToolStep[],
): Promise<string[]> {
  if (steps.length === 0) {
    return [];
  }
  const passes = await countPasses(transaction, steps);
  const spent = steps.filter((step) => (passes.get(step.id) ?? 0) > MAX_PASSES);
  for (const step of spent) {
    await refuse(transaction, unit, turn.threadId, step, `${step.name} could not be run because of an internal error.`);
  }
  if (spent.length > 0) {
    await unit.flush();
  }
  const run = steps.filter((step) => !spent.includes(step)).map((step) => step.id);
  await addSegmentEvents(transaction, turn.id, run.length * CALL_EVENTS);
  return run;
}

export interface Standing {
  readonly run: string[];
  readonly round: number;
  readonly next: "wait" | "continue";
}

/** Where a gated round stands: what may run, and whether anything is still awaited. */
export async function standing(
  transaction: Transaction,
  sessionId: string,
  round: number,
  steps: readonly ToolStep[],
): Promise<Standing> {
  const actions = await actionsOfSteps(transaction, sessionId, steps);
  return {
    run: runnableSteps(steps, actions).slice(0, CALLS_PER_PASS),
    round,
    next: waitingEventIds(actions).length > 0 ? "wait" : "continue",
  };
}

/** Throws `ReceiptConflict` when a call's input is not the one that was judged. */
function verdictOf(session: SessionRow, step: ToolStep, receipt: Receipt | undefined): Verdict {
  if (step.owner === "none") {
    return judge(undefined);
  }
  const tool = session.runtime.tools.find((candidate) => candidate.name === step.name);
  if (receipt !== undefined && !receipt.inputDigest.equals(inputDigest(step))) {
    throw new ReceiptConflict(step.id);
  }
  return judge(tool, receipt?.judgment);
}

function useEvent(step: ToolStep, verdict: Verdict, traceId: string | undefined): { type: string; payload: string } {
  const call = { name: step.name, idempotency_key: step.idempotencyKey, trace_id: traceId };
  if (step.owner === "client_custom") {
    return { type: "agent.custom_tool_use", payload: splice(call, { input: step.input }) };
  }
  const evaluation = verdict.evaluation ?? undefined;
  const fields = { ...call, evaluated_permission: verdict.permission, evaluation };
  return { type: "agent.tool_use", payload: splice(fields, { input: step.input }) };
}

/** A call of no tool's is denied, or one that was judged so; otherwise the model wrote an input that is no JSON object. */
function refusalText(session: SessionRow, step: ToolStep): string {
  const tool = session.runtime.tools.find((candidate) => candidate.name === step.name);
  return step.owner === "none" && tool !== undefined && tool.owner !== "provider_native"
    ? `The input of ${step.name} is not a valid JSON object; the call was not run.`
    : deniedText(step.name, null);
}

/** Answers a call that may not run: the model gets an error result, and the ledger shows it. */
export async function refuse(
  transaction: Transaction,
  unit: SessionUnit,
  threadId: string,
  step: ToolStep,
  text: string,
): Promise<void> {
  const content = JSON.stringify([{ type: "text", text }]);
  const eventId = derivedId("sevt", step.id, "tool_result");
  await settleStep(transaction, {
    stepId: step.id,
    state: step.state === "started" ? "ambiguous" : "completed",
    result: content,
    isError: true,
    resultEventId: eventId,
  });
  unit.append({
    id: eventId,
    threadId,
    type: "agent.tool_result",
    payload: splice({ tool_use_id: step.eventId }, { content, is_error: "true" }),
  });
}
