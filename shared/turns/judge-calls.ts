import { createHash } from "node:crypto";
import type { TurnRef } from "../../statemachines/turn-payload.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import type { ToolStep } from "../journal/tool-steps.ts";
import {
  type Evaluation,
  EvaluationCancelled,
  fallbackEvaluation,
  modelEvaluator,
  type PermissionEvaluator,
} from "../permissions/evaluator.ts";
import { envelopeOf, readConversation } from "../permissions/provenance.ts";
import { type Receipt, saveEvaluation } from "../permissions/receipts.ts";
import type { trustEnvelope } from "../permissions/trust-envelope.ts";
import type { Product } from "../product.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import type { EntryPlace } from "../transcript/transcript.ts";
import { isCurrent, type LockedTurn, lockTurn } from "./turn-row.ts";

/** How often it is looked whether the turn is still ours; an interrupt reaches a judgment within a second. */
const FENCE_MS = 1000;
/** Requests at once: a whole round of 128 calls, each at its deadline, still ends within the state's 120 seconds. */
const AT_ONCE = 32;

/** A call that needs a judgment and has none, with what the evaluator will be shown. */
export interface UnjudgedCall {
  readonly step: ToolStep;
  readonly envelope: ReturnType<typeof trustEnvelope>;
  readonly model: string;
  readonly runtimeRevision: number;
  /** Up to where the transcript was read for it. */
  readonly through: EntryPlace;
}

/**
 * The calls of a round that fall under the policy `auto` and have no receipt yet; the caller holds the session's lock.
 * What the evaluator will be shown of each is read here, so that it is the conversation as it stood at the round's end.
 */
export async function unjudgedCalls(
  transaction: Transaction,
  { session, turn }: LockedTurn,
  steps: readonly ToolStep[],
  receipts: ReadonlyMap<string, Receipt>,
): Promise<UnjudgedCall[]> {
  const missing = steps.filter((step) => isJudged(session, step) && !receipts.has(step.id));
  if (missing.length === 0) {
    return [];
  }
  const conversation = await readConversation(transaction, turn);
  const { runtimeRevision, runtime } = session;
  return missing.map((step) => ({
    step,
    model: runtime.model,
    runtimeRevision,
    through: conversation.through,
    envelope: envelopeOf(runtime, conversation, step),
  }));
}

/**
 * Has calls judged, side by side. Each judgment is saved with its cost in a transaction of its own as soon as it is
 * there; one that is saved is never asked for again, one whose process died before is judged anew.
 *
 * Returns early, without judgments, when the turn is taken away: the gate then finds that it has lost the turn.
 */
export async function judgeCalls(product: Product, ref: TurnRef, calls: readonly UnjudgedCall[]): Promise<void> {
  const taken = new AbortController();
  const stopWatching = watchTurn(product, ref, taken);
  const evaluator = modelEvaluator(product.model);
  const queue = [...calls];
  const work = async () => {
    for (let next = queue.shift(); next !== undefined && !taken.signal.aborted; next = queue.shift()) {
      await judgeCall(product, ref, evaluator, next, taken.signal);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, calls.length) }, work));
  } finally {
    stopWatching();
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

async function judgeCall(
  product: Product,
  ref: TurnRef,
  evaluator: PermissionEvaluator,
  call: UnjudgedCall,
  signal: AbortSignal,
): Promise<void> {
  const evaluation = await evaluate(evaluator, call, signal);
  if (evaluation.fallback !== null) {
    product.log.warn("A call could not be judged; a person is asked.", {
      step_id: call.step.id,
      reason: evaluation.fallback,
    });
  }
  await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null) {
      return;
    }
    const { session } = locked;
    await saveEvaluation(transaction, {
      workspaceId: session.workspaceId,
      sessionId: session.id,
      segment: ref.segment,
      step: call.step,
      inputDigest: inputDigest(call.step),
      provider: product.model.provider,
      runtimeRevision: call.runtimeRevision,
      through: call.through,
      owned: locked.owned && !signal.aborted,
      evaluation,
    });
    if (evaluation.usage !== null) {
      const unit = new SessionUnit(transaction, session);
      unit.addUsage(evaluation.usage);
      await unit.flush();
    }
  });
}

/** A cancelled evaluation has no judgment, but what is known of its cost is kept. */
async function evaluate(evaluator: PermissionEvaluator, call: UnjudgedCall, signal: AbortSignal): Promise<Evaluation> {
  const { envelope, model } = call;
  if (typeof envelope === "string") {
    return fallbackEvaluation(model, envelope);
  }
  try {
    return await evaluator.evaluate({ model, envelope: envelope.text, signal });
  } catch (error) {
    if (error instanceof EvaluationCancelled) {
      return { ...fallbackEvaluation(model, "cancelled"), usage: error.usage };
    }
    throw error;
  }
}

/** Aborts `taken` when the turn is no longer this segment's. A look that fails is no verdict: the next one decides. */
function watchTurn(product: Product, ref: TurnRef, taken: AbortController): () => void {
  const look = async () => {
    try {
      if (!(await isCurrent(product.database, ref))) {
        taken.abort();
      }
    } catch (error) {
      product.log.warn("The fence could not be read; the next look decides.", {
        turn_id: ref.turnId,
        error: (error as Error).name,
      });
    }
  };
  const timer = setInterval(() => void look(), FENCE_MS);
  return () => clearInterval(timer);
}
