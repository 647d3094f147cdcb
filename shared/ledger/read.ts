import type { Transaction } from "../db/transaction.ts";
import type { LedgerEvent } from "./event.ts";

export interface EventRow {
  session_id: string;
  seq: number;
  id: string;
  thread_id: string;
  type: string;
  payload: string;
  received_at: Date;
  processed_at: Date | null;
}

export const COLUMNS = "session_id, seq, id, thread_id, type, payload, received_at, processed_at";

export function toEvent(row: EventRow): LedgerEvent {
  return {
    sessionId: row.session_id,
    seq: row.seq,
    id: row.id,
    threadId: row.thread_id,
    type: row.type,
    payload: row.payload,
    receivedAt: row.received_at,
    processedAt: row.processed_at,
  };
}

/**
 * The events after a ledger position, in receipt order: what a stream shows next. At most `limit` of them, and no more
 * than about `bytes` of payload, but at least one.
 */
export async function eventsAfter(
  database: Transaction,
  params: { readonly sessionId: string; readonly afterSeq: number; readonly limit: number; readonly bytes: number },
): Promise<LedgerEvent[]> {
  const { rows } = await database.query<EventRow>(
    `select ${COLUMNS} from (
       select ${COLUMNS}, sum(octet_length(payload)) over (order by seq) - octet_length(payload) as before
         from (select ${COLUMNS} from events where session_id = $1 and seq > $2 order by seq limit $3) page
     ) sized where before < $4 order by seq`,
    [params.sessionId, params.afterSeq, params.limit, params.bytes],
  );
  return rows.map(toEvent);
}

/** Those of the given positions that have been stamped since: a stream shows them again under the same id. */
export async function stampedAmong(
  database: Transaction,
  params: { readonly sessionId: string; readonly seqs: readonly number[] },
): Promise<LedgerEvent[]> {
  const { rows } = await database.query<EventRow>(
    `select ${COLUMNS} from events where session_id = $1 and seq = any($2::bigint[]) and processed_at is not null order by seq`,
    [params.sessionId, params.seqs],
  );
  return rows.map(toEvent);
}

/** The named events of a session, in receipt order. */
export async function eventsByIds(
  database: Transaction,
  params: { readonly sessionId: string; readonly ids: readonly string[] },
): Promise<LedgerEvent[]> {
  const { rows } = await database.query<EventRow>(
    `select ${COLUMNS} from events where session_id = $1 and id = any($2::text[]) order by seq`,
    [params.sessionId, params.ids],
  );
  return rows.map(toEvent);
}

/** Where a stream that attaches now begins: the head of the ledger, and the queued events whose stamp is to come. */
export async function ledgerHead(
  database: Transaction,
  params: { readonly sessionId: string },
): Promise<{ lastSeq: number; queued: number[]; running: boolean }> {
  const { rows } = await database.query<{ last_seq: number; queued: number[]; running: boolean }>(
    `select last_seq, array(select seq from events where session_id = $1 and processed_at is null order by seq) as queued,
            status <> 'idle' as running
       from sessions where id = $1`,
    [params.sessionId],
  );
  return {
    lastSeq: rows[0]?.last_seq ?? 0,
    queued: (rows[0]?.queued ?? []).map(Number),
    running: rows[0]?.running ?? false,
  };
}

/** The last instant that the session's ledger has stamped. */
export async function lastStamp(database: Transaction, params: { readonly sessionId: string }): Promise<Date> {
  const { rows } = await database.query<{ last_processed_at: Date }>(
    "select last_processed_at from sessions where id = $1",
    [params.sessionId],
  );
  return rows[0]?.last_processed_at ?? new Date(0);
}
