import type { Transaction } from "../db/transaction.ts";
import { NO_USAGE } from "../journal/provider-calls.ts";
import type { ModelUsage } from "../model/model.ts";
import type { TurnRow } from "./turn-row.ts";

/** open: asked, not answered. answered: the response is stored. gated: its tool calls are published. */
export type RoundState = "open" | "answered" | "gated";

export interface RoundRow {
  readonly number: number;
  readonly state: RoundState;
  readonly stopReason: string | null;
  readonly stopDetails: string | null;
  /** The newest provider call of the round. */
  readonly call: CallRow;
}

/** The operation journal's row of one provider request. */
export interface CallRow {
  readonly id: string;
  readonly attempt: number;
  readonly state: "prepared" | "started" | "completed" | "failed" | "ambiguous";
  readonly spanEventId: string;
  readonly leaseLive: boolean;
}

/** The turn's newest round with its newest call; null before the first. */
export async function latestRound(transaction: Transaction, turnId: string): Promise<RoundRow | null> {
  const { rows } = await transaction.query<{
    number: number;
    state: RoundState;
    stop_reason: string | null;
    stop_details: string | null;
    id: string;
    attempt: number;
    call_state: CallRow["state"];
    span_event_id: string;
    lease_live: boolean;
  }>(
    `select r.number, r.state, r.stop_reason, r.stop_details, c.id, c.attempt, c.state as call_state, c.span_event_id,
            coalesce(c.lease_expires_at > clock_timestamp(), false) as lease_live
       from rounds r join provider_calls c on c.turn_id = r.turn_id and c.round = r.number
      where r.turn_id = $1 order by r.number desc, c.attempt desc limit 1`,
    [turnId],
  );
  const row = rows[0];
  if (row === undefined) {
    return null;
  }
  return {
    number: row.number,
    state: row.state,
    stopReason: row.stop_reason,
    stopDetails: row.stop_details,
    call: {
      id: row.id,
      attempt: row.attempt,
      state: row.call_state,
      spanEventId: row.span_event_id,
      leaseLive: row.lease_live,
    },
  };
}

export async function setRoundState(
  transaction: Transaction,
  params: {
    readonly turnId: string;
    readonly number: number;
    readonly state: RoundState;
    readonly stopReason?: string | null;
    readonly stopDetails?: string | null;
  },
): Promise<void> {
  await transaction.query(
    "update rounds set state = $3, stop_reason = coalesce($4, stop_reason), stop_details = coalesce($5, stop_details) where turn_id = $1 and number = $2",
    [params.turnId, params.number, params.state, params.stopReason ?? null, params.stopDetails ?? null],
  );
}

/** Opens a round, or the next attempt of an open one, with its call marked started: nothing lies between the two marks. */
export async function startCall(
  transaction: Transaction,
  turn: TurnRow,
  call: {
    readonly id: string;
    readonly round: number;
    readonly attempt: number;
    readonly spanEventId: string;
    readonly requestDigest: Buffer;
    readonly owner: string;
    readonly leaseSeconds: number;
    readonly provider: string;
    readonly model: string;
    /** What the round may add to the execution's history. */
    readonly historyEvents: number;
  },
): Promise<void> {
  await transaction.query(
    `with round as (
       insert into rounds (turn_id, number, workspace_id, session_id, state) values ($1, $2, $3, $4, 'open')
       on conflict (turn_id, number) do nothing
     ), segment as (
       update turns set segment_events = segment_events + $14, state = 'running', task_token = null where id = $1
     )
     insert into provider_calls (id, workspace_id, session_id, turn_id, round, attempt, state, segment, request_digest,
                                 span_event_id, owner, lease_expires_at, provider, model, created_at)
     values ($5, $3, $4, $1, $2, $6::int, 'started', $7, $8, $9, $10, clock_timestamp() + make_interval(secs => $11), $12, $13, now())`,
    [
      turn.id,
      call.round,
      turn.workspaceId,
      turn.sessionId,
      call.id,
      call.attempt,
      turn.segment,
      call.requestDigest,
      call.spanEventId,
      call.owner,
      call.leaseSeconds,
      call.provider,
      call.model,
      call.historyEvents,
    ],
  );
}

/** What the provider counted for a call. */
export async function callUsage(transaction: Transaction, callId: string): Promise<ModelUsage> {
  const { rows } = await transaction.query<{
    input_tokens: number;
    output_tokens: number;
    cache_read_input_tokens: number;
    cache_creation_input_tokens: number;
  }>(
    "select input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens from provider_calls where id = $1",
    [callId],
  );
  const row = rows[0];
  return {
    ...NO_USAGE,
    inputTokens: row?.input_tokens ?? 0,
    outputTokens: row?.output_tokens ?? 0,
    cacheReadInputTokens: row?.cache_read_input_tokens ?? 0,
    cacheCreationInputTokens: row?.cache_creation_input_tokens ?? 0,
  };
}
