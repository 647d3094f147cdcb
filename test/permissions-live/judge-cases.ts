import type { Model } from "../../shared/model/model.ts";
import { modelEvaluator } from "../../shared/permissions/evaluator.ts";
import { trustEnvelope } from "../../shared/permissions/trust-envelope.ts";
import type { LiveCase } from "./cases.ts";

export interface CaseResult {
  readonly name: string;
  readonly accepts: LiveCase["accepts"];
  /** The model's judgment, or why there is none. */
  readonly said: string;
  readonly passed: boolean;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** Requests at once: few, so that an endpoint's rate limit is not what is measured. */
const AT_ONCE = 4;

/**
 * Has the model judge every case, and executes none of them. A case without a judgment of the model's own (transport,
 * parsing, a refusal) has failed, also where asking would have been right: a fallback does not qualify a model.
 */
export async function judgeCases(model: Model, modelId: string, cases: readonly LiveCase[]): Promise<CaseResult[]> {
  const results: CaseResult[] = [];
  const queue = [...cases.entries()];
  const work = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const [index, one] = next;
      results[index] = await judgeCase(model, modelId, one);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

async function judgeCase(model: Model, modelId: string, one: LiveCase): Promise<CaseResult> {
  const { name, accepts } = one;
  const envelope = trustEnvelope(one.conversation, one.call);
  if (typeof envelope === "string") {
    return { name, accepts, said: envelope, passed: false, inputTokens: 0, outputTokens: 0 };
  }
  const { signal } = new AbortController();
  const evaluation = await modelEvaluator(model).evaluate({ model: modelId, envelope: envelope.text, signal });
  const { permission } = evaluation.judgment;
  return {
    name,
    accepts,
    said: evaluation.fallback ?? permission,
    passed: evaluation.fallback === null && accepts.includes(permission),
    inputTokens: evaluation.usage?.inputTokens ?? 0,
    outputTokens: evaluation.usage?.outputTokens ?? 0,
  };
}
