import { createHash } from "node:crypto";
import type { Transaction } from "../db/transaction.ts";
import type { ToolOwner } from "../permissions/runtime.ts";

/** A tool call in the journal. `none` owns a call of a tool that the session does not have. */
export interface ToolStep {
  readonly id: string;
  readonly turnId: string;
  readonly round: number;
  readonly position: number;
  readonly eventId: string;
  readonly providerToolUseId: string;
  readonly name: string;
  /** JSON text exactly as the model wrote it. */
  readonly input: string;
  readonly owner: ToolOwner | "none";
  readonly permission: "allow" | "ask" | "deny" | null;
  readonly state: "prepared" | "started" | "completed" | "ambiguous";
  readonly idempotencyKey: string;
  /** JSON text of result blocks; null until there is one. */
  readonly result: string | null;
  readonly isError: boolean | null;
  readonly resultEventId: string | null;
}

interface Row {
  id: string;
  turn_id: string;
  round: number;
  position: number;
  event_id: string;
  provider_tool_use_id: string;
  name: string;
  input: string;
  owner: ToolStep["owner"];
  permission: ToolStep["permission"];
  state: ToolStep["state"];
  idempotency_key: string;
  result: string | null;
  is_error: boolean | null;
  result_event_id: string | null;
}

const COLUMNS =
  "id, turn_id, round, position, event_id, provider_tool_use_id, name, input, owner, permission, state, idempotency_key, result, is_error, result_event_id";

function toStep(row: Row): ToolStep {
  return {
    id: row.id,
    turnId: row.turn_id,
    round: row.round,
    position: row.position,
    eventId: row.event_id,
    providerToolUseId: row.provider_tool_use_id,
    name: row.name,
    input: row.input,
    owner: row.owner,
    permission: row.permission,
    state: row.state,
    idempotencyKey: row.idempotency_key,
    result: row.result,
    isError: row.is_error,
    resultEventId: row.result_event_id,
  };
}

/** Whether the step needs nothing more: it has a result, or nobody will ever know it. */
export function isSettled(step: ToolStep): boolean {
  return step.state === "completed" || step.state === "ambiguous";
}

/** Prepares the calls of a response: ids and keys are fixed before anything is dispatched. */
export async function prepareSteps(
  transaction: Transaction,
  owner: { readonly workspaceId: string; readonly sessionId: string },
  steps: readonly Omit<ToolStep, "permission" | "state" | "result" | "isError" | "resultEventId">[],
): Promise<void> {
  if (steps.length === 0) {
    return;
  }
  await transaction.query(
    `insert into tool_steps (workspace_id, session_id, turn_id, round, state, created_at, id, position, event_id,
                             provider_tool_use_id, name, input, input_digest, owner, idempotency_key)
     select $1, $2, $3, $4, 'prepared', now(), *
       from unnest($5::text[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::text[])`,
    [
      owner.workspaceId,
      owner.sessionId,
      steps[0]?.turnId,
      steps[0]?.round,
      steps.map((step) => step.id),
      steps.map((step) => step.position),
      steps.map((step) => step.eventId),
      steps.map((step) => step.providerToolUseId),
      steps.map((step) => step.name),
      steps.map((step) => step.input),
      steps.map((step) => createHash("sha256").update(step.input).digest()),
      steps.map((step) => step.owner),
      steps.map((step) => step.idempotencyKey),
    ],
  );
}

/** Writes down calls that the provider runs itself: begun, and nobody's to gate or to execute. */
export async function recordNativeSteps(
  transaction: Transaction,
  owner: { readonly id: string; readonly workspaceId: string; readonly sessionId: string },
  steps: readonly Omit<ToolStep, "owner" | "permission" | "state" | "result" | "isError" | "resultEventId">[],
): Promise<void> {
  await transaction.query(
    `insert into tool_steps (workspace_id, session_id, turn_id, owner, permission, state, created_at, round, id, position, event_id,
                             provider_tool_use_id, name, input, input_digest, idempotency_key)
     select $1, $2, $3, 'provider_native', 'allow', 'started', now(), *
       from unnest($4::int[], $5::text[], $6::int[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[])`,
    [
      owner.workspaceId,
      owner.sessionId,
      owner.id,
      steps.map((step) => step.round),
      steps.map((step) => step.id),
      steps.map((step) => step.position),
      steps.map((step) => step.eventId),
      steps.map((step) => step.providerToolUseId),
      steps.map((step) => step.name),
      steps.map((step) => step.input),
      steps.map((step) => createHash("sha256").update(step.input).digest()),
      steps.map((step) => step.idempotencyKey),
    ],
  );
}

/** The turn's calls that the provider began and has not answered yet, whichever round they are of. */
export async function openNativeSteps(transaction: Transaction, turnId: string): Promise<ToolStep[]> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from tool_steps where turn_id = $1 and owner = 'provider_native' and state = 'started'
      order by round, position desc`,
    [turnId],
  );
  return rows.map(toStep);
}

/** The calls of a round that somebody outside the model request answers; those of the provider itself are not among them. */
export async function stepsOfRound(
  transaction: Transaction,
  params: { readonly turnId: string; readonly round: number },
): Promise<ToolStep[]> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from tool_steps where turn_id = $1 and round = $2 and owner <> 'provider_native' order by position`,
    [params.turnId, params.round],
  );
  return rows.map(toStep);
}

export async function stepById(transaction: Transaction, stepId: string): Promise<ToolStep | null> {
  const { rows } = await transaction.query<Row>(`select ${COLUMNS} from tool_steps where id = $1`, [stepId]);
  return rows[0] === undefined ? null : toStep(rows[0]);
}

/** The published call of that public id; null when the session has none. */
export async function stepByEvent(
  transaction: Transaction,
  params: { readonly sessionId: string; readonly eventId: string },
): Promise<ToolStep | null> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from tool_steps where session_id = $1 and event_id = $2`,
    [params.sessionId, params.eventId],
  );
  return rows[0] === undefined ? null : toStep(rows[0]);
}

export async function setPermissions(
  transaction: Transaction,
  verdicts: readonly { readonly stepId: string; readonly permission: "allow" | "ask" | "deny" }[],
): Promise<void> {
  await transaction.query(
    `update tool_steps s set permission = v.permission from unnest($1::text[], $2::text[]) as v (id, permission) where s.id = v.id`,
    [verdicts.map((verdict) => verdict.stepId), verdicts.map((verdict) => verdict.permission)],
  );
}

/** Counts that the steps are handed to RunTools once more; answers with the counts by step id. */
export async function countPasses(
  transaction: Transaction,
  steps: readonly Pick<ToolStep, "id">[],
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await transaction.query<{ id: string; passes: number }>(
    "update tool_steps set passes = passes + 1 where id = any($1::text[]) returning id, passes",
    [steps.map((step) => step.id)],
  );
  return new Map(rows.map((row) => [row.id, row.passes]));
}

/** Stores a result. Only a step without one takes it: the first writer wins, and the caller learns whether it did. */
export async function settleStep(
  transaction: Transaction,
  params: {
    readonly stepId: string;
    readonly state: "completed" | "ambiguous";
    readonly result: string;
    readonly isError: boolean;
    readonly resultEventId: string | null;
    /** JSON text of what the executor noted for the record. */
    readonly provenance?: string | null;
  },
): Promise<boolean> {
  const { rowCount } = await transaction.query(
    `update tool_steps set state = $2, result = $3, is_error = $4, result_event_id = $5, provenance = $6, lease_expires_at = null,
       completed_at = now()
      where id = $1 and state in ('prepared', 'started')`,
    [params.stepId, params.state, params.result, params.isError, params.resultEventId, params.provenance ?? null],
  );
  return rowCount === 1;
}

/**
 * Marks a prepared step started, with an owner and a lease.
 *
 * - `busy`: another invocation runs it.
 * - `lost`: it was started and its lease has run out, so nobody knows what happened; it must not be started again.
 * - `forbidden`: nothing entitles it to run. Judged here once more, because a gate's word is evidence and not authority:
 *   the call must be allowed, or asked about and confirmed, and its input must be the one that was journaled and judged.
 */
export async function startStep(
  transaction: Transaction,
  params: {
    readonly stepId: string;
    readonly owner: string;
    readonly leaseSeconds: number;
    /** The call falls under the policy `auto`: without a receipt nothing of it runs. */
    readonly judged: boolean;
  },
): Promise<"started" | "busy" | "lost" | "forbidden"> {
  const { rowCount } = await transaction.query(
    `update tool_steps s set state = 'started', run_owner = $2, lease_expires_at = clock_timestamp() + make_interval(secs => $3)
      where s.id = $1 and s.state = 'prepared' and s.input_digest = sha256(convert_to(s.input, 'UTF8'))
        and (s.permission = 'allow' or s.permission = 'ask' and exists (
              select 1 from pending_actions a
               where a.session_id = s.session_id and a.event_id = s.event_id and a.need = 'confirmation' and a.resolution = 'allow'))
        and (not $4 or exists (
              select 1 from permission_evaluations e
               where e.step_id = s.id and e.standing = 'receipt'
                 and e.input_digest = s.input_digest and e.permission = s.permission))`,
    [params.stepId, params.owner, params.leaseSeconds, params.judged],
  );
  if (rowCount === 1) {
    return "started";
  }
  const { rows } = await transaction.query<{ state: ToolStep["state"]; live: boolean }>(
    "select state, coalesce(lease_expires_at > clock_timestamp(), false) as live from tool_steps where id = $1",
    [params.stepId],
  );
  if (rows[0]?.state === "prepared") {
    return "forbidden";
  }
  return rows[0]?.live ? "busy" : "lost";
}

/** Keeps the lease of a running step; false when it has been answered, closed or judged by somebody else. */
export async function renewStep(
  database: Transaction,
  params: { readonly stepId: string; readonly owner: string; readonly leaseSeconds: number },
): Promise<boolean> {
  const { rowCount } = await database.query(
    `update tool_steps set lease_expires_at = clock_timestamp() + make_interval(secs => $3)
      where id = $1 and run_owner = $2 and state = 'started'`,
    [params.stepId, params.owner, params.leaseSeconds],
  );
  return rowCount === 1;
}

/** The same look without writing. */
export async function stillRuns(
  database: Transaction,
  params: { readonly stepId: string; readonly owner: string },
): Promise<boolean> {
  const { rowCount } = await database.query(
    "select 1 from tool_steps where id = $1 and run_owner = $2 and state = 'started'",
    [params.stepId, params.owner],
  );
  return rowCount === 1;
}
