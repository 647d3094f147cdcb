import { createHash } from "node:crypto";
import type { TurnRef } from "../../statemachines/turn-payload.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { ToolStep } from "../journal/tool-steps.ts";
import {
  type Evaluation,
  EvaluationCancelled,
  fallbackEvaluation,
  modelEvaluator,
  type PermissionEvaluator,
} from "../permissions/evaluator.ts";
import { type JudgedRound, readConversation } from "../permissions/provenance.ts";
import { type Receipt, ReceiptConflict, saveEvaluation } from "../permissions/receipts.ts";
import type { SessionRuntime } from "../permissions/runtime.ts";
import { trustEnvelope } from "../permissions/trust-envelope.ts";
import type { Product } from "../product.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { type EntryPlace, lastPlace } from "../transcript/transcript.ts";
import { storeOutcome } from "./store-outcome.ts";
import { isCurrent, type LockedTurn, lockTurn, markBusy } from "./turn-row.ts";
import { watchFence } from "./watch-fence.ts";

/**
 * Requests at once: a round of 128 calls, each at its deadline of 20 s, still ends within the state's 120 seconds. A
 * longer one goes on in the state's next try, which finds what was saved.
 */
const AT_ONCE = 32;

/** Calls of one round that need a judgment and have none, and what they will be judged by. */
export interface UnjudgedCalls {
  readonly steps: readonly ToolStep[];
  readonly round: JudgedRound;
  readonly runtime: SessionRuntime;
  readonly runtimeRevision: number;
  /** The end of the transcript as it stood when the round was answered. */
  readonly through: EntryPlace;
}

/** How long a round may be judged: the state's own time. */
const JUDGING_SECONDS = 120;

/**
 * The calls of a round that fall under the policy `auto` and have no receipt yet; null when there is none. The caller
 * holds the session's lock, and the turn is marked busy, so that nobody takes it for lost.
 */
export async function unjudgedCalls(
  transaction: Transaction,
  { session, turn }: LockedTurn,
  steps: readonly ToolStep[],
  receipts: ReadonlyMap<string, Receipt>,
): Promise<UnjudgedCalls | null> {
  const missing = steps.filter((step) => isJudged(session, step) && !receipts.has(step.id));
  const [first] = missing;
  if (first === undefined) {
    return null;
  }
  await markBusy(transaction, turn.id, JUDGING_SECONDS);
  return {
    steps: missing,
    round: {
      round: first.round,
      sessionId: session.id,
      threadId: turn.threadId,
      triggerEventId: turn.triggerEventId,
    },
    runtime: session.runtime,
    runtimeRevision: session.runtimeRevision,
    through: await lastPlace(transaction, turn),
  };
}

/**
 * Has calls judged, side by side. Each judgment is saved with its cost in a transaction of its own as soon as it is
 * there; one that is saved is never asked for again, one whose process died before is judged anew.
 *
 * Returns early, without judgments, when the turn is taken away: the gate then finds that it has lost the turn. When one
 * judgment cannot be saved the others are cancelled, so that none goes on beside the state's next try.
 */
export async function judgeCalls(product: Product, ref: TurnRef, calls: UnjudgedCalls): Promise<void> {
  const { runtime, through } = calls;
  const conversation = await readConversation(product.database, calls.round, { agentSystem: runtime.system, through });
  const cancelled = new AbortController();
  const fence = { look: () => isCurrent(product.database, ref) };
  const stopWatching = watchFence(product, fence, { named: { turn_id: ref.turnId }, abort: cancelled });
  const evaluator = modelEvaluator(product.model);
  const queue = [...calls.steps];
  const work = async () => {
    for (let step = queue.shift(); step !== undefined && !cancelled.signal.aborted; step = queue.shift()) {
      try {
        const envelope = trustEnvelope(conversation, step);
        const evaluation = await evaluate(evaluator, runtime.model, envelope, cancelled.signal);
        await save(product, ref, calls, step, evaluation);
      } catch (error) {
        cancelled.abort();
        throw error;
      }
    }
  };
  const works = await Promise.allSettled(Array.from({ length: Math.min(AT_ONCE, queue.length) }, work));
  stopWatching();
  const failed = works.find((one) => one.status === "rejected");
  if (failed !== undefined) {
    throw failed.reason;
  }
}

/** Whether the evaluator decides about the call: a tool of the session's under the policy `auto`. */
export function isJudged(session: Pick<SessionRow, "runtime">, step: Pick<ToolStep, "name" | "owner">): boolean {
  const tool = session.runtime.tools.find((candidate) => candidate.name === step.name);
  return step.owner !== "none" && tool?.policy === "auto";
}

export function inputDigest(step: Pick<ToolStep, "input">): Buffer {
  return createHash("sha256").update(step.input).digest();
}

async function save(
  product: Product,
  ref: TurnRef,
  calls: UnjudgedCalls,
  step: ToolStep,
  evaluation: Evaluation,
): Promise<void> {
  const { fallback } = evaluation;
  if (fallback !== null && fallback !== "cancelled") {
    product.log.warn("A call could not be judged; a person is asked.", { step_id: step.id, reason: fallback });
  }
  // Made here: a repeat of the commit whose answer was lost is known by it.
  const id = newId("peval");
  const conflict = await storeOutcome(product, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null) {
      return false;
    }
    const { session } = locked;
    const saved = await saveEvaluation(transaction, {
      id,
      workspaceId: session.workspaceId,
      sessionId: session.id,
      segment: ref.segment,
      step,
      inputDigest: inputDigest(step),
      provider: product.model.provider,
      runtimeRevision: calls.runtimeRevision,
      through: calls.through,
      counts: locked.owned && fallback !== "cancelled",
      evaluation,
    });
    if (evaluation.usage !== null && saved !== "known") {
      const unit = new SessionUnit(transaction, session);
      unit.addUsage(evaluation.usage);
      await unit.flush();
    }
    return saved === "conflict";
  });
  if (conflict) {
    throw new ReceiptConflict(step.id);
  }
}

/** A cancelled evaluation has no judgment, but what is known of its cost is kept. */
async function evaluate(
  evaluator: PermissionEvaluator,
  model: string,
  envelope: ReturnType<typeof trustEnvelope>,
  signal: AbortSignal,
): Promise<Evaluation> {
  if (typeof envelope === "string") {
    return fallbackEvaluation(model, envelope);
  }
  try {
    return await evaluator.evaluate({ model, envelope: envelope.text, signal });
  } catch (error) {
    if (error instanceof EvaluationCancelled) {
      const { requestDigest, usage } = error;
      return { ...fallbackEvaluation(model, "cancelled"), requestDigest, usage };
    }
    throw error;
  }
}
