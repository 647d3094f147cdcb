import type { RunToolInput } from "../../statemachines/turn-payload.ts";
import { derivedId } from "../contract/ids.ts";
import { inTransaction } from "../db/transaction.ts";
import {
  isSettled,
  renewStep,
  settleStep,
  startStep,
  stepById,
  stillRuns,
  type ToolStep,
} from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { deniedText } from "../permissions/gate.ts";
import type { Product } from "../product.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { END_OF_TURN, readTranscript } from "../transcript/transcript.ts";
import { refuse } from "./gate-tools.ts";
import { isJudged } from "./judge-calls.ts";
import type { ToolOutcome } from "./tool-executor.ts";
import { TurnBusyError } from "./turn-errors.ts";
import { isActive, type LockedTurn, lockTurn } from "./turn-row.ts";
import { watchFence } from "./watch-fence.ts";

/** Long enough for any server-side tool. */
const LONGEST_MS = 15 * 60_000;

/**
 * The handler of state RunTool: runs one server-side call through the operation journal,
 * prepared → started → completed, or ambiguous. A call that was started and has no result is never started again.
 */
export async function runTool(product: Product, input: RunToolInput): Promise<void> {
  const ref = { turnId: input.turnId, segment: input.segment };
  const step = await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    const found = await stepById(transaction, input.stepId);
    if (locked === null || !locked.owned || found === null || found.turnId !== ref.turnId || isSettled(found)) {
      return null;
    }
    const started = await startStep(transaction, {
      stepId: found.id,
      owner: product.owner,
      leaseSeconds: product.leaseSeconds,
      judged: isJudged(locked.session, found),
    });
    if (started === "busy") {
      throw new TurnBusyError(ref.turnId);
    }
    if (started === "forbidden") {
      product.log.error("A call was handed out that nothing entitles to run; it is refused.", { step_id: found.id });
      const unit = new SessionUnit(transaction, locked.session);
      await refuse(transaction, unit, locked.turn.threadId, found, deniedText(found.name, null));
      await unit.flush();
      return null;
    }
    return { step: found, lost: started === "lost", locked };
  });
  if (step === null) {
    return;
  }
  await settle(product, ref, step.step, step.lost ? null : await dispatch(product, step.step, step.locked));
}

/** Null when nobody knows what happened. */
async function dispatch(product: Product, step: ToolStep, { session, turn }: LockedTurn): Promise<ToolOutcome | null> {
  const through = { turn: turn.ordinal, entry: END_OF_TURN };
  const abort = new AbortController();
  const { database, leaseSeconds, owner } = product;
  const fence = {
    renew: () => renewStep(database, { stepId: step.id, owner, leaseSeconds }),
    look: () => stillRuns(database, { stepId: step.id, owner }),
  };
  const stopWatching = watchFence(product, fence, { named: { step_id: step.id }, abort });
  try {
    return await product.tools.run({
      name: step.name,
      input: step.input,
      idempotencyKey: step.idempotencyKey,
      signal: AbortSignal.any([abort.signal, AbortSignal.timeout(LONGEST_MS)]),
      session: {
        tools: session.runtime.tools,
        readTranscript: () => readTranscript(product.database, { threadId: turn.threadId, through }),
      },
    });
  } catch (error) {
    product.log.warn("A server-side tool call broke; its effect is unknown.", {
      step_id: step.id,
      error: (error as Error).name,
    });
    return null;
  } finally {
    stopWatching();
  }
}

/**
 * Stores what the call came to. A segment that lost its turn stores it too, and then its event with it: whoever took the
 * turn over finds the call settled and would never say so.
 */
async function settle(
  product: Product,
  ref: { turnId: string; segment: number },
  step: ToolStep,
  outcome: ToolOutcome | null,
): Promise<void> {
  const content =
    outcome?.content ??
    JSON.stringify([{ type: "text", text: "The call broke off, and whether it took effect is unknown." }]);
  const isError = outcome?.isError ?? true;
  const sessionId = await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null) {
      return null;
    }
    const eventId = derivedId("sevt", step.id, "tool_result");
    const first = await settleStep(transaction, {
      stepId: step.id,
      state: outcome === null ? "ambiguous" : "completed",
      result: content,
      isError,
      resultEventId: eventId,
      provenance: outcome?.provenance ?? null,
    });
    // An ended turn has answered each of its published calls.
    if (!first || !isActive(locked.turn.state) || locked.session.deletingAt !== null) {
      return null;
    }
    const unit = new SessionUnit(transaction, locked.session);
    unit.append({
      id: eventId,
      threadId: locked.turn.threadId,
      type: "agent.tool_result",
      payload: splice({ tool_use_id: step.eventId, is_error: isError }, { content }),
    });
    await unit.flush();
    return locked.session.id;
  });
  if (sessionId !== null) {
    void product.live.publish(sessionId, { type: "wake" });
  }
}
