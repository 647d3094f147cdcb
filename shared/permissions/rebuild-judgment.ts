import { AuditMismatch, recordLook } from "../context/rebuild.ts";
import { digest } from "../context/snapshot.ts";
import type { Transaction } from "../db/transaction.ts";
import { EVALUATOR_VERSION, evaluationRequest } from "./evaluator.ts";
import { readConversation } from "./provenance.ts";
import type { SessionRuntime } from "./runtime.ts";
import { trustEnvelope } from "./trust-envelope.ts";

/** What an operator sees of one judgment under the policy `auto`. */
export interface AuditedJudgment {
  readonly id: string;
  readonly tool: string;
  /** Whether it is the one that counts. */
  readonly standing: "receipt" | "surplus";
  readonly permission: string;
  /** Why a person is asked although the model did not say so. */
  readonly fallback: string | null;
  readonly createdAt: Date;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

interface JudgmentRow {
  id: string;
  name: string;
  standing: AuditedJudgment["standing"];
  permission: string;
  fallback: string | null;
  created_at: Date;
  input_tokens: number;
  output_tokens: number;
  input: string;
  thread_id: string;
  round: number;
  trigger_event_id: string;
  through_turn: number;
  through_entry: number;
  evaluator_version: string;
  request_digest: Buffer | null;
  runtime: string;
}

/** The judgments of a session, oldest first. */
export async function listJudgments(database: Transaction, sessionId: string): Promise<AuditedJudgment[]> {
  return (await readJudgments(database, sessionId)).map(toJudgment);
}

/**
 * Rebuilds the request of a judgment, proves it by its digest and records the look; null when the session has no such
 * judgment, or none that a request was made for. Throws `AuditMismatch`.
 */
export async function rebuildJudgment(
  database: Transaction,
  params: { readonly sessionId: string; readonly id: string; readonly actor: string },
): Promise<{ readonly judgment: AuditedJudgment; readonly body: string } | null> {
  const { sessionId } = params;
  const row = (await readJudgments(database, sessionId)).find((one) => one.id === params.id);
  if (row?.request_digest == null) {
    return null;
  }
  await recordLook(database, { ...params, action: `read judgment ${params.id}` });
  if (row.evaluator_version !== EVALUATOR_VERSION) {
    throw new AuditMismatch(
      `It was made by evaluator ${row.evaluator_version}; this release has ${EVALUATOR_VERSION}.`,
    );
  }
  const runtime = JSON.parse(row.runtime) as SessionRuntime;
  const round = { sessionId, threadId: row.thread_id, round: row.round, triggerEventId: row.trigger_event_id };
  const through = { turn: row.through_turn, entry: row.through_entry };
  const conversation = await readConversation(database, round, { agentSystem: runtime.system, through });
  const envelope = trustEnvelope(conversation, row);
  const body = typeof envelope === "string" ? "" : evaluationRequest(runtime.model, envelope.text);
  if (!digest(body).equals(row.request_digest)) {
    throw new AuditMismatch("The rebuilt request has another digest than the one that was sent.");
  }
  return { judgment: toJudgment(row), body };
}

async function readJudgments(database: Transaction, sessionId: string): Promise<JudgmentRow[]> {
  const { rows } = await database.query<JudgmentRow>(
    `select e.id, s.name, e.standing, e.permission, e.fallback, e.created_at, e.input_tokens, e.output_tokens, s.input,
            t.thread_id, s.round, t.trigger_event_id, e.through_turn, e.through_entry, e.evaluator_version,
            e.request_digest, r.runtime
       from permission_evaluations e join tool_steps s on s.id = e.step_id join turns t on t.id = e.turn_id
       join session_runtimes r on r.session_id = e.session_id and r.revision = e.runtime_revision
      where e.session_id = $1 order by e.created_at, e.id`,
    [sessionId],
  );
  return rows;
}

function toJudgment(row: JudgmentRow): AuditedJudgment {
  return {
    id: row.id,
    tool: row.name,
    standing: row.standing,
    permission: row.permission,
    fallback: row.fallback,
    createdAt: row.created_at,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
  };
}
