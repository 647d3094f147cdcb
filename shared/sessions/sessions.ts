import { getAgent } from "../agents/agents.ts";
import type { SessionAgent } from "../contract/agents.ts";
import type { AcceptedEvent } from "../contract/client-events.ts";
import { InvalidRequest, NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { CreateSession, Session, SessionStatus } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import { getEnvironment } from "../environments/environments.ts";
import { genesisHash } from "../ledger/event.ts";
import type { Capabilities } from "../permissions/capabilities.ts";
import { resolveRuntime } from "../permissions/resolve-runtime.ts";
import { type Admitted, admitEvents } from "./admission.ts";
import { pinAgent, withOverrides } from "./pinned-agent.ts";
import { sessionUsage } from "./session-unit.ts";

/**
 * Creates a session: pins the agent and its runtime, opens the primary thread, and admits the initial events, all in
 * the caller's transaction, so that either everything is there or nothing.
 */
export async function createSession(
  transaction: Transaction,
  params: { readonly workspaceId: string; readonly capabilities: Capabilities; readonly body: CreateSession },
): Promise<{ session: Session; admitted: Admitted | null }> {
  const { workspaceId, body } = params;
  const reference = typeof body.agent === "string" ? { type: "agent" as const, id: body.agent } : body.agent;
  const agent = await getAgent(transaction, { workspaceId, agentId: reference.id, version: reference.version });
  if (agent.archived_at !== null) {
    throw new InvalidRequest(`agent: ${agent.id} is archived; no new session can use it.`);
  }
  const environment = await getEnvironment(transaction, { workspaceId, environmentId: body.environment_id });
  if (environment.archived_at !== null) {
    throw new InvalidRequest(`environment_id: ${environment.id} is archived; no new session can use it.`, {
      details: { error_code: "environment_archived" },
    });
  }
  const pinned =
    reference.type === "agent_with_overrides" ? withOverrides(pinAgent(agent), reference) : pinAgent(agent);
  const id = newId("sesn");
  const threadId = newId("sthr");
  await transaction.query(
    `with clock as (select date_trunc('milliseconds', clock_timestamp()) as instant),
          session as (
            insert into sessions (id, workspace_id, environment_id, agent_id, agent_version, title, metadata, agent, runtime,
                                  status, primary_thread_id, last_hash, last_processed_at, created_at, updated_at)
            select $1, $2, $3, $4, $5, $6, $7, $8, $9, 'idle', $10, $11, instant, instant, instant from clock returning id
          ),
          runtime as (
            insert into session_runtimes (session_id, revision, workspace_id, runtime, created_at)
            select session.id, 1, $2, $9, instant from session, clock
          )
     insert into threads (id, session_id, workspace_id, status, created_at, updated_at)
     select $10, session.id, $2, 'idle', instant, instant from session, clock`,
    [
      id,
      workspaceId,
      environment.id,
      agent.id,
      agent.version,
      body.title ?? null,
      JSON.stringify(body.metadata ?? {}),
      JSON.stringify(pinned),
      JSON.stringify(
        resolveRuntime(pinned, params.capabilities, { id: environment.id, updatedAt: environment.updated_at }),
      ),
      threadId,
      genesisHash(id),
    ],
  );
  const events = (body.initial_events ?? []) as AcceptedEvent[];
  const admitted = events.length > 0 ? await admitEvents(transaction, { workspaceId, sessionId: id, events }) : null;
  return { session: await getSession(transaction, { workspaceId, sessionId: id }), admitted };
}

export interface SessionColumns {
  id: string;
  status: SessionStatus;
  title: string | null;
  agent: string;
  environment_id: string;
  metadata: string;
  input_tokens: number;
  output_tokens: number;
  cache_read_input_tokens: number;
  cache_creation_input_tokens: number;
  web_search_requests: number;
  web_fetch_requests: number;
  active_ms: number;
  duration_ms: number;
  created_at: Date;
  updated_at: Date;
  archived_at: Date | null;
}

/** What a session shows, its times as of now. */
export const SESSION_COLUMNS = `id, status, title, agent, environment_id, metadata, input_tokens, output_tokens, cache_read_input_tokens,
  cache_creation_input_tokens, web_search_requests, web_fetch_requests, created_at, updated_at, archived_at,
  active_ms + coalesce(round(extract(epoch from clock_timestamp() - running_since) * 1000), 0)::bigint as active_ms,
  round(extract(epoch from coalesce(archived_at, clock_timestamp()) - created_at) * 1000)::bigint as duration_ms`;

export function toSession(row: SessionColumns): Session {
  return {
    id: row.id,
    type: "session",
    status: row.status,
    title: row.title,
    agent: JSON.parse(row.agent) as SessionAgent,
    environment_id: row.environment_id,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    resources: [],
    vault_ids: [],
    budget: null,
    ...usageAndStats(row),
    outcome_evaluations: [],
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    archived_at: row.archived_at?.toISOString() ?? null,
  };
}

export function usageAndStats(row: SessionColumns): Pick<Session, "usage" | "stats"> {
  const usage = {
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    cacheReadInputTokens: row.cache_read_input_tokens,
    cacheCreationInputTokens: row.cache_creation_input_tokens,
    webSearchRequests: row.web_search_requests,
    webFetchRequests: row.web_fetch_requests,
  };
  return {
    usage: sessionUsage(usage, row.active_ms),
    stats: { active_seconds: row.active_ms / 1000, duration_seconds: row.duration_ms / 1000 },
  };
}

export interface SessionRef {
  readonly workspaceId: string;
  readonly sessionId: string;
}

/** A session with its usage as of now. A foreign or deleted id is not found. */
export async function getSession(database: Transaction, ref: SessionRef): Promise<Session> {
  const { rows } = await database.query<SessionColumns>(
    `select ${SESSION_COLUMNS} from sessions where id = $1 and workspace_id = $2 and deleting_at is null`,
    [ref.sessionId, ref.workspaceId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw noSession(ref.sessionId);
  }
  return toSession(row);
}

/** Throws when the workspace has no such session. */
export async function assertSession(database: Transaction, ref: SessionRef): Promise<void> {
  const { rowCount } = await database.query(
    "select 1 from sessions where id = $1 and workspace_id = $2 and deleting_at is null",
    [ref.sessionId, ref.workspaceId],
  );
  if (rowCount !== 1) {
    throw noSession(ref.sessionId);
  }
}

export function noSession(sessionId: string): NotFound {
  return new NotFound(`There is no session ${sessionId}.`);
}
