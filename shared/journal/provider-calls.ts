import type { Transaction } from "../db/transaction.ts";
import type { ModelUsage } from "../model/model.ts";

export const NO_USAGE: ModelUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadInputTokens: 0,
  cacheCreationInputTokens: 0,
  webSearchRequests: 0,
  webFetchRequests: 0,
};

/** Writes how a call ended. Only a started call can end, so a late verdict never overwrites an earlier one. */
export async function endCall(
  transaction: Transaction,
  params: {
    readonly callId: string;
    readonly state: "completed" | "failed" | "ambiguous";
    readonly usage: ModelUsage;
    readonly requestId?: string | null;
    readonly stopReason?: string | null;
    readonly errorType?: string | null;
  },
): Promise<boolean> {
  const { rowCount } = await transaction.query(
    `update provider_calls set state = $2, input_tokens = $3, output_tokens = $4, cache_read_input_tokens = $5,
       cache_creation_input_tokens = $6, provider_request_id = $7, stop_reason = $8, error_type = $9,
       lease_expires_at = null, completed_at = now()
     where id = $1 and state = 'started'`,
    [
      params.callId,
      params.state,
      params.usage.inputTokens,
      params.usage.outputTokens,
      params.usage.cacheReadInputTokens,
      params.usage.cacheCreationInputTokens,
      params.requestId ?? null,
      params.stopReason ?? null,
      params.errorType ?? null,
    ],
  );
  return rowCount === 1;
}

/**
 * Keeps what the provider counted for a call whose answer came too late to count; null when it is known already. `was`
 * tells whether the call had been judged by somebody else.
 */
export async function recordLateUsage(
  transaction: Transaction,
  params: { readonly callId: string; readonly usage: ModelUsage; readonly requestId: string | null },
): Promise<{ readonly was: "started" | "ambiguous" } | null> {
  const { rows } = await transaction.query<{ was: "started" | "ambiguous" }>(
    `with call as (
       select id, state from provider_calls
        where id = $1 and state in ('started', 'ambiguous') and input_tokens = 0 and output_tokens = 0 for update
     )
     update provider_calls c set state = 'ambiguous', input_tokens = $2, output_tokens = $3, cache_read_input_tokens = $4,
       cache_creation_input_tokens = $5, provider_request_id = $6, lease_expires_at = null,
       completed_at = coalesce(c.completed_at, now())
      from call where c.id = call.id returning call.state as was`,
    [
      params.callId,
      params.usage.inputTokens,
      params.usage.outputTokens,
      params.usage.cacheReadInputTokens,
      params.usage.cacheCreationInputTokens,
      params.requestId,
    ],
  );
  return rows[0] ?? null;
}

/** Keeps the lease of a running call and tells whether its segment still owns the turn. */
export async function renewLease(
  database: Transaction,
  params: { readonly callId: string; readonly owner: string; readonly leaseSeconds: number },
): Promise<boolean> {
  const { rows } = await database.query<{ owned: boolean }>(
    `update provider_calls c set lease_expires_at = clock_timestamp() + make_interval(secs => $3)
       from turns t
      where c.id = $1 and c.owner = $2 and c.state = 'started' and t.id = c.turn_id
      returning t.segment = c.segment and t.state = 'running' as owned`,
    [params.callId, params.owner, params.leaseSeconds],
  );
  return rows[0]?.owned ?? false;
}

/** Tells whether a running call's segment still owns the turn, without writing. */
export async function stillOwned(database: Transaction, callId: string): Promise<boolean> {
  const { rows } = await database.query<{ owned: boolean }>(
    `select t.segment = c.segment and t.state = 'running' and c.state = 'started' as owned
       from provider_calls c join turns t on t.id = c.turn_id where c.id = $1`,
    [callId],
  );
  return rows[0]?.owned ?? false;
}

/** Ends every lease: for a server that knows itself to be the only one, at its start. Their calls are judged at once. */
export async function expireLeases(database: Transaction): Promise<void> {
  await database.query("update provider_calls set lease_expires_at = clock_timestamp() where state = 'started'");
  await database.query(
    "update tool_steps set lease_expires_at = clock_timestamp() where state = 'started' and owner = 'platform_managed'",
  );
}

/** Whether somebody works on the turn: a provider call of it is under way, or its calls are being judged. */
export async function isBusy(transaction: Transaction, turnId: string): Promise<boolean> {
  const { rowCount } = await transaction.query(
    `select 1 from turns t where t.id = $1 and (t.busy_until > clock_timestamp() or exists (
       select 1 from provider_calls c where c.turn_id = t.id and c.state = 'started' and c.lease_expires_at > clock_timestamp()))`,
    [turnId],
  );
  return rowCount === 1;
}
