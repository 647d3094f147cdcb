import type { Transaction } from "../db/transaction.ts";
import { NO_USAGE } from "../journal/provider-calls.ts";
import type { ToolStep } from "../journal/tool-steps.ts";
import type { EntryPlace } from "../transcript/transcript.ts";
import { EVALUATOR_VERSION, type Evaluation } from "./evaluator.ts";
import type { Judgment } from "./judgment.ts";

/**
 * Receipts: what was judged of a call, saved with its cost before anything may execute. The first one saved counts; it
 * is recovered after a crash and never judged again. A receipt is evidence, not authority: whoever executes compares the
 * input's digest and the turn's ownership once more.
 */
export interface Receipt {
  readonly stepId: string;
  readonly judgment: Judgment;
  /** SHA-256 of the input that was judged. */
  readonly inputDigest: Buffer;
}

interface Row {
  step_id: string;
  permission: Judgment["permission"];
  reason_code: string | null;
  input_digest: Buffer;
}

function toReceipt(row: Row): Receipt {
  const { permission, reason_code } = row;
  const judgment = (permission === "allow" ? { permission } : { permission, reason_code }) as Judgment;
  return { stepId: row.step_id, judgment, inputDigest: row.input_digest };
}

/** The receipts that the calls have so far, by step id. */
export async function receiptsOf(
  transaction: Transaction,
  steps: readonly Pick<ToolStep, "id">[],
): Promise<ReadonlyMap<string, Receipt>> {
  if (steps.length === 0) {
    return new Map();
  }
  const { rows } = await transaction.query<Row>(
    `select step_id, permission, reason_code, input_digest from permission_evaluations
      where step_id = any($1::text[]) and standing = 'receipt'`,
    [steps.map((step) => step.id)],
  );
  return new Map(rows.map((row) => [row.step_id, toReceipt(row)]));
}

/** A call has a receipt for another input. Nothing of it may run. */
export class ReceiptConflict extends Error {
  override readonly name = "ReceiptConflict";
  constructor(stepId: string) {
    super(`The receipt of ${stepId} is for another input.`);
  }
}

/**
 * Saves an evaluation: as the call's receipt when it `counts` and there is none, otherwise for its cost only. The caller
 * holds the session's lock and adds the usage to the session in the same transaction, unless it was `known`: saved
 * before, under the same id. `conflict`: saved for its cost, and the receipt that is there was given for another input.
 */
export async function saveEvaluation(
  transaction: Transaction,
  params: {
    readonly id: string;
    readonly workspaceId: string;
    readonly sessionId: string;
    readonly segment: number;
    readonly step: Pick<ToolStep, "id" | "turnId">;
    readonly inputDigest: Buffer;
    readonly provider: string;
    readonly runtimeRevision: number;
    /** Up to where the transcript was read. */
    readonly through: EntryPlace;
    readonly counts: boolean;
    readonly evaluation: Evaluation;
  },
): Promise<"saved" | "known" | "conflict"> {
  const { step, evaluation } = params;
  const first = (await receiptsOf(transaction, [step])).get(step.id);
  const standing = params.counts && first === undefined ? "receipt" : "surplus";
  const usage = evaluation.usage ?? NO_USAGE;
  const { rowCount } = await transaction.query(
    `insert into permission_evaluations (id, workspace_id, session_id, turn_id, step_id, standing, segment, input_digest,
                                         runtime_revision, through_turn, through_entry, request_digest,
                                         evaluator_version, provider, model, permission, reason_code, fallback, stop_reason,
                                         provider_request_id, input_tokens, output_tokens,
                                         cache_read_input_tokens, cache_creation_input_tokens, created_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, now())
     on conflict (id) do nothing`,
    [
      params.id,
      params.workspaceId,
      params.sessionId,
      step.turnId,
      step.id,
      standing,
      params.segment,
      params.inputDigest,
      params.runtimeRevision,
      params.through.turn,
      params.through.entry,
      evaluation.requestDigest,
      EVALUATOR_VERSION,
      params.provider,
      evaluation.model,
      evaluation.judgment.permission,
      "reason_code" in evaluation.judgment ? evaluation.judgment.reason_code : null,
      evaluation.fallback,
      evaluation.stopReason,
      evaluation.requestId,
      usage.inputTokens,
      usage.outputTokens,
      usage.cacheReadInputTokens,
      usage.cacheCreationInputTokens,
    ],
  );
  if (rowCount === 0) {
    return "known";
  }
  return first === undefined || first.inputDigest.equals(params.inputDigest) ? "saved" : "conflict";
}
