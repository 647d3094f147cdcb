import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { openNativeSteps, recordNativeSteps, settleStep, type ToolStep } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import type { Block } from "../model/content-blocks.ts";
import { type PublicResult, publicResult, serverCallOf } from "../model/native-blocks.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";
import type { BegunRound } from "./begin-round.ts";
import type { TurnRow } from "./turn-row.ts";

/**
 * Calls that the provider runs inside the model request. Nothing here executes or gates them: they are over, or go on
 * with the next request (pause_turn), when we learn of them. The journal maps their ids, and the ledger shows each call
 * with its result, so that it is never left without one.
 *
 * started: the response holds the call and not its result. completed: a later block of the turn holds the result.
 * ambiguous: the turn ended before.
 */

/** Journals and publishes the native calls and results of one response, in the order of its blocks. */
export async function publishNativeCalls(
  transaction: Transaction,
  unit: SessionUnit,
  begun: BegunRound,
  blocks: readonly Block[],
): Promise<void> {
  const calls = blocks.filter((block) => isNativeCall(begun, block));
  const answers = blocks.filter((block) => serverCallOf(block)?.half === "result");
  if (calls.length === 0 && answers.length === 0) {
    return;
  }
  const { turn } = begun;
  if (calls.length > 0) {
    await recordNativeSteps(
      transaction,
      turn,
      calls.map((block) => stepOf(begun, block)),
    );
  }
  const open = new Map(
    (await openNativeSteps(transaction, turn.id)).map((step) => [step.providerToolUseId, step] as const),
  );
  for (const block of blocks) {
    const half = serverCallOf(block);
    const step = half === null ? undefined : open.get(half.id);
    if (step === undefined) {
      continue;
    }
    if (half?.half === "call") {
      unit.append({ id: step.eventId, threadId: turn.threadId, type: "agent.tool_use", payload: usePayload(step) });
    } else {
      await answer(transaction, unit, turn, { step, result: publicResult(block), state: "completed" });
    }
  }
}

/** Answers the native calls that the turn leaves behind, in the transaction that ends it. */
export async function closeNativeCalls(transaction: Transaction, unit: SessionUnit, turn: TurnRow): Promise<void> {
  // Spares every other session the query.
  if (!unit.session.runtime.tools.some(({ owner }) => owner === "provider_native")) {
    return;
  }
  const content = JSON.stringify([{ type: "text", text: "The turn ended before this call had a result." }]);
  for (const step of await openNativeSteps(transaction, turn.id)) {
    await answer(transaction, unit, turn, { step, result: { content, isError: true }, state: "ambiguous" });
  }
}

async function answer(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  its: { readonly step: ToolStep; readonly result: PublicResult; readonly state: "completed" | "ambiguous" },
): Promise<void> {
  const { step, result, state } = its;
  const eventId = derivedId("sevt", step.id, "tool_result");
  const settled = { stepId: step.id, state, result: result.content, isError: result.isError, resultEventId: eventId };
  if (await settleStep(transaction, settled)) {
    unit.append({
      id: eventId,
      threadId: turn.threadId,
      type: "agent.tool_result",
      payload: splice({ tool_use_id: step.eventId, is_error: result.isError }, { content: result.content }),
    });
  }
}

function isNativeCall(begun: BegunRound, block: Block): boolean {
  return (
    block.type === "server_tool_use" &&
    begun.session.runtime.tools.some(({ name, owner }) => name === block.name && owner === "provider_native")
  );
}

function usePayload(step: ToolStep): string {
  const fields = {
    name: step.name,
    idempotency_key: step.idempotencyKey,
    evaluated_permission: "allow",
    evaluation: { type: "always_allow" },
  };
  return splice(fields, { input: step.input });
}

function stepOf(begun: BegunRound, block: Block) {
  const id = derivedId("step", begun.callId, "native", block.index);
  return {
    id,
    turnId: begun.turn.id,
    round: begun.round,
    // Apart from the calls that we gate, which count from 0 among themselves.
    position: -1 - block.index,
    eventId: derivedId("sevt", id, "tool_use"),
    providerToolUseId: block.id ?? "",
    name: block.name ?? "",
    input: block.inputText ?? "{}",
    idempotencyKey: id,
  };
}
