import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { SessionRuntime } from "../permissions/runtime.ts";
import { readTranscript } from "../transcript/transcript.ts";
import { ADAPTER_VERSION, buildRequest } from "./build-request.ts";
import { digest, entriesDigest } from "./snapshot.ts";

/** What an operator sees of one provider request. */
export interface AuditedRequest {
  /** Counts the session's requests from 1. */
  readonly number: number;
  readonly callId: string;
  readonly turn: number;
  readonly round: number;
  readonly attempt: number;
  readonly state: string;
  readonly createdAt: Date;
  readonly entries: number;
  readonly tokenEstimate: number;
  readonly bytes: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

interface Row {
  number: number;
  call_id: string;
  turn: number;
  round: number;
  attempt: number;
  state: string;
  created_at: Date;
  entry_count: number;
  token_estimate: number;
  request_bytes: number;
  input_tokens: number;
  output_tokens: number;
  thread_id: string;
  through_turn: number;
  through_entry: number;
  entries_digest: Buffer;
  refused_entry_ids: string[];
  adapter_version: string;
  request_digest: Buffer;
  runtime: string;
}

/** The requests of a session, oldest first. */
export async function listRequests(database: Transaction, sessionId: string): Promise<AuditedRequest[]> {
  return (await readRequests(database, sessionId)).map(toRequest);
}

/** The recipe does not give what was sent: the record or the code has changed. */
export class AuditMismatch extends Error {
  override readonly name = "AuditMismatch";
}

/**
 * Rebuilds a request from its recipe and proves it by its digest. The look is recorded: a request holds what people and
 * models said to each other.
 *
 * Throws `AuditMismatch`; null when the session has no such request.
 */
export async function rebuildRequest(
  database: Transaction,
  params: { readonly sessionId: string; readonly number: number; readonly actor: string },
): Promise<{ readonly request: AuditedRequest; readonly body: string } | null> {
  const row = (await readRequests(database, params.sessionId))[params.number - 1];
  if (row === undefined) {
    return null;
  }
  await recordLook(database, { ...params, action: `read request ${params.number} (${row.call_id})` });
  if (row.adapter_version !== ADAPTER_VERSION) {
    throw new AuditMismatch(`It was built by adapter ${row.adapter_version}; this release has ${ADAPTER_VERSION}.`);
  }
  const through = { turn: row.through_turn, entry: row.through_entry };
  const entries = await readTranscript(database, { threadId: row.thread_id, through });
  if (!entriesDigest(entries).equals(row.entries_digest)) {
    throw new AuditMismatch(`The transcript has other entries than the ${row.entry_count} of the recipe.`);
  }
  // As it was then: a refusal that came later does not count.
  const transcript = entries.map((entry) => ({ ...entry, refused: row.refused_entry_ids.includes(entry.id) }));
  const body = buildRequest(JSON.parse(row.runtime) as SessionRuntime, transcript);
  if (!digest(body).equals(row.request_digest)) {
    throw new AuditMismatch("The rebuilt request has another digest than the one that was sent.");
  }
  return { request: toRequest(row), body };
}

/** Every look at what people and models said to each other, outside the API, is recorded. */
export async function recordLook(
  database: Transaction,
  look: { readonly sessionId: string; readonly actor: string; readonly action: string },
): Promise<void> {
  await database.query("insert into audit_records (id, session_id, actor, action) values ($1, $2, $3, $4)", [
    newId("audit"),
    look.sessionId,
    look.actor,
    look.action,
  ]);
}

async function readRequests(database: Transaction, sessionId: string): Promise<Row[]> {
  const { rows } = await database.query<Row>(
    `select row_number() over (order by s.created_at, s.call_id)::int as number, s.call_id, t.ordinal as turn, c.round, c.attempt,
            c.state, s.created_at, s.entry_count, s.token_estimate, s.request_bytes, c.input_tokens, c.output_tokens,
            t.thread_id, s.through_turn, s.through_entry, s.entries_digest, s.refused_entry_ids, s.adapter_version,
            s.request_digest, r.runtime
       from context_snapshots s join provider_calls c on c.id = s.call_id join turns t on t.id = s.turn_id
       join session_runtimes r on r.session_id = s.session_id and r.revision = s.runtime_revision
      where s.session_id = $1 order by s.created_at, s.call_id`,
    [sessionId],
  );
  return rows;
}

function toRequest(row: Row): AuditedRequest {
  return {
    number: row.number,
    callId: row.call_id,
    turn: row.turn,
    round: row.round,
    attempt: row.attempt,
    state: row.state,
    createdAt: row.created_at,
    entries: row.entry_count,
    tokenEstimate: row.token_estimate,
    bytes: row.request_bytes,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
  };
}
