import type { SessionStatus } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import type { ModelUsage } from "../model/model.ts";
import type { SessionRuntime } from "../permissions/runtime.ts";

/** A session as a transaction sees it that holds its row lock. */
export interface SessionRow {
  readonly id: string;
  readonly workspaceId: string;
  readonly environmentId: string;
  readonly primaryThreadId: string;
  readonly agentName: string;
  readonly status: SessionStatus;
  /** Why it stands idle; null while it runs, and before its first turn. */
  readonly stopReason: string | null;
  readonly lastSeq: number;
  readonly lastHash: Buffer;
  readonly lastProcessedAt: Date;
  readonly usage: ModelUsage;
  readonly activeMs: number;
  readonly runningSince: Date | null;
  readonly archivedAt: Date | null;
  readonly deletingAt: Date | null;
  /** JSON text; the session's agent in the API's shape. */
  readonly agent: string;
  readonly runtime: SessionRuntime;
  readonly runtimeRevision: number;
  /** The database's clock when the lock was asked for, never before the last stamp. */
  readonly now: Date;
}

interface Row {
  id: string;
  workspace_id: string;
  environment_id: string;
  primary_thread_id: string;
  status: SessionStatus;
  stop_reason: string | null;
  last_seq: number;
  last_hash: Buffer;
  last_processed_at: Date;
  input_tokens: number;
  output_tokens: number;
  cache_read_input_tokens: number;
  cache_creation_input_tokens: number;
  web_search_requests: number;
  web_fetch_requests: number;
  active_ms: number;
  running_since: Date | null;
  archived_at: Date | null;
  deleting_at: Date | null;
  agent: string;
  runtime: string;
  runtime_revision: number;
  now: Date;
}

/**
 * Takes the session's row lock, which orders every write to the session. The session is named by
 * its id (in a workspace, when one is given) or by one of its turns. Null when there is none.
 *
 * Instants are kept in whole milliseconds, so that what JavaScript reads is what PostgreSQL compares.
 */
export async function lockSession(
  transaction: Transaction,
  params: { readonly sessionId: string; readonly workspaceId?: string } | { readonly turnId: string },
): Promise<SessionRow | null> {
  const [which, values] =
    "turnId" in params
      ? ["id = (select session_id from turns where id = $1)", [params.turnId]]
      : ["id = $1 and ($2::text is null or workspace_id = $2)", [params.sessionId, params.workspaceId ?? null]];
  const { rows } = await transaction.query<Row>(
    `select id, workspace_id, environment_id, primary_thread_id, status, stop_reason, last_seq, last_hash, last_processed_at,
            input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, web_search_requests,
            web_fetch_requests, active_ms, running_since, archived_at, deleting_at, agent, runtime, runtime_revision,
            greatest(date_trunc('milliseconds', clock_timestamp()), last_processed_at) as now
       from sessions where ${which} for update`,
    values,
  );
  const row = rows[0];
  if (row === undefined) {
    return null;
  }
  const runtime = JSON.parse(row.runtime) as SessionRuntime;
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    environmentId: row.environment_id,
    primaryThreadId: row.primary_thread_id,
    agentName: runtime.agentName,
    status: row.status,
    stopReason: row.stop_reason,
    lastSeq: row.last_seq,
    lastHash: row.last_hash,
    lastProcessedAt: row.last_processed_at,
    usage: {
      inputTokens: row.input_tokens,
      outputTokens: row.output_tokens,
      cacheReadInputTokens: row.cache_read_input_tokens,
      cacheCreationInputTokens: row.cache_creation_input_tokens,
      webSearchRequests: row.web_search_requests,
      webFetchRequests: row.web_fetch_requests,
    },
    activeMs: row.active_ms,
    runningSince: row.running_since,
    archivedAt: row.archived_at,
    deletingAt: row.deleting_at,
    agent: row.agent,
    runtime,
    runtimeRevision: row.runtime_revision,
    // A waiter's clock was read before it got the lock; the holder may have stamped later instants since.
    now: new Date(Math.max(row.now.getTime(), row.last_processed_at.getTime())),
  };
}
