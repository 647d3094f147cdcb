import { createHash } from "node:crypto";
import { readBlocks } from "../model/content-blocks.ts";
import { type Model, ModelAborted, ModelError, type ModelResponse, type ModelUsage } from "../model/model.ts";
import { CRITERIA } from "./criteria.ts";
import { ASK, type Judgment, readJudgment } from "./judgment.ts";

/** Names the criteria and the envelope below: recorded with each judgment. */
export const EVALUATOR_VERSION = "mango-auto/1";

/** Why an evaluation fell back to asking; private, for the journal and the live cases. */
export type Fallback =
  | "no_intent"
  | "oversize"
  | "refused_before"
  | "timeout"
  | "refusal"
  | "provider_error"
  | "malformed"
  | "truncated"
  | "cancelled";

export interface Evaluation {
  readonly judgment: Judgment;
  /** Null when the judgment is the model's own. */
  readonly fallback: Fallback | null;
  /** SHA-256 of the request's body; null when the model was not asked. */
  readonly requestDigest: Buffer | null;
  readonly model: string;
  readonly stopReason: string | null;
  readonly requestId: string | null;
  /** Null when no request was made, or nothing is known of its cost. */
  readonly usage: ModelUsage | null;
}

/** The call's turn was taken away while it was judged. Carries the cost that is known. */
export class EvaluationCancelled extends Error {
  override readonly name = "EvaluationCancelled";
  readonly requestDigest: Buffer;
  readonly usage: ModelUsage | null;

  constructor(requestDigest: Buffer, usage: ModelUsage | null) {
    super("The evaluation was cancelled.");
    this.requestDigest = requestDigest;
    this.usage = usage;
  }
}

/** Judges one call. Never rejects for what the model does: that is a judgment to ask. */
export interface PermissionEvaluator {
  /** Rejects with `EvaluationCancelled` when `signal` aborts. */
  evaluate(request: {
    readonly model: string;
    readonly envelope: string;
    readonly signal: AbortSignal;
  }): Promise<Evaluation>;
}

const DEADLINE_MS = 20_000;
/** The answer is a few words; a model that begins to think aloud is cut off and not believed. */
const MAX_OUTPUT_TOKENS = 1024;

/** The evaluation by the session's own model: one request without tools. */
export function modelEvaluator(model: Model, options: { readonly deadlineMs?: number } = {}): PermissionEvaluator {
  return {
    async evaluate({ model: modelId, envelope, signal }) {
      const deadline = AbortSignal.timeout(options.deadlineMs ?? DEADLINE_MS);
      const body = evaluationRequest(modelId, envelope);
      const told = { requestDigest: createHash("sha256").update(body).digest(), model: modelId };
      try {
        const response = await model.stream({
          body,
          signal: AbortSignal.any([signal, deadline]),
        });
        const { requestId, usage } = response;
        return { ...told, ...judged(response), stopReason: storable(response.stopReason), requestId, usage };
      } catch (error) {
        if (error instanceof ModelAborted && signal.aborted) {
          throw new EvaluationCancelled(told.requestDigest, error.usage);
        }
        if (error instanceof ModelAborted || error instanceof ModelError) {
          const fallback = error instanceof ModelAborted ? "timeout" : "provider_error";
          const requestId = error instanceof ModelError ? error.requestId : null;
          return { ...told, judgment: ASK, fallback, stopReason: null, requestId, usage: error.usage };
        }
        throw error;
      }
    },
  };
}

/** PostgreSQL stores no NUL; an answer with one is malformed anyway. */
function storable(stopReason: string | null): string | null {
  return stopReason?.includes("\u0000") ? null : stopReason;
}

/** The evaluation of a call that no request is made for. */
export function fallbackEvaluation(model: string, fallback: Fallback): Evaluation {
  return {
    judgment: ASK,
    fallback,
    requestDigest: null,
    model,
    stopReason: null,
    requestId: null,
    usage: null,
  };
}

function judged(response: ModelResponse): { judgment: Judgment; fallback: Fallback | null } {
  if (response.stopReason === "refusal") {
    return { judgment: ASK, fallback: "refusal" };
  }
  if (response.stopReason === "max_tokens") {
    return { judgment: ASK, fallback: "truncated" };
  }
  const [block, ...more] = readBlocks(response.content);
  const isWhole = response.stopReason === "end_turn" && block?.type === "text" && more.length === 0;
  const judgment = isWhole ? readJudgment(block.text ?? "") : null;
  return judgment === null ? { judgment: ASK, fallback: "malformed" } : { judgment, fallback: null };
}

/** The body of the evaluator's request. Thinking is off: it would use up the output tokens before the answer. */
export function evaluationRequest(model: string, envelope: string): string {
  return JSON.stringify({
    model,
    max_tokens: MAX_OUTPUT_TOKENS,
    thinking: { type: "disabled" },
    system: CRITERIA,
    messages: [{ role: "user", content: [{ type: "text", text: envelope }] }],
    stream: true,
  });
}
