import type { Transaction } from "../db/transaction.ts";
import type { LedgerEvent } from "./event.ts";

interface EventRow {
  session_id: string;
  seq: number;
  id: string;
  thread_id: string;
  type: string;
  payload: string;
  received_at: Date;
  processed_at: Date | null;
}

const COLUMNS = "session_id, seq, id, thread_id, type, payload, received_at, processed_at";

function toEvent(row: EventRow): LedgerEvent {
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

/** The events after a ledger position, in receipt order: what a stream shows next. */
export async function eventsAfter(
  database: Transaction,
  params: { readonly sessionId: string; readonly afterSeq: number; readonly limit: number },
): Promise<LedgerEvent[]> {
  const { rows } = await database.query<EventRow>(
    `select ${COLUMNS} from events where session_id = $1 and seq > $2 order by seq limit $3`,
    [params.sessionId, params.afterSeq, params.limit],
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

/** A place in a list of events. Queued events come last and have no instant. */
export interface EventPosition {
  readonly processedAt: Date | null;
  readonly seq: number;
}

export interface EventFilters {
  readonly sessionId: string;
  /** Null for the whole session. */
  readonly threadId: string | null;
  readonly order: "asc" | "desc";
  readonly types: readonly string[] | null;
  /** Compared with `processed_at`; a queued event has none and passes no bound. */
  readonly createdAt: {
    readonly gt?: Date | undefined;
    readonly gte?: Date | undefined;
    readonly lt?: Date | undefined;
    readonly lte?: Date | undefined;
  };
}

export interface EventPageParams extends EventFilters {
  readonly after: EventPosition | null;
  readonly limit: number;
}

/**
 * A page of events by `processed_at` (queued ones last, or first when descending), then receipt.
 *
 * Each direction is two index ranges glued together, because a row comparison with nulls has no index: first what is
 * processed, then what is queued (or the other way round). So a page costs the same at any length of the session.
 */
export async function eventPage(database: Transaction, params: EventPageParams): Promise<LedgerEvent[]> {
  const queuedFirst = params.order === "desc";
  const phases: ("processed" | "queued")[] = queuedFirst ? ["queued", "processed"] : ["processed", "queued"];
  const start = params.after === null ? 0 : phases.indexOf(params.after.processedAt === null ? "queued" : "processed");
  const found: LedgerEvent[] = [];
  const bounded = Object.values(params.createdAt).some((bound) => bound !== undefined);
  for (const phase of phases.slice(start).filter((candidate) => !(bounded && candidate === "queued"))) {
    if (found.length < params.limit) {
      const after = phase === phases[start] ? params.after : null;
      found.push(...(await phasePage(database, { ...params, after, limit: params.limit - found.length }, phase)));
    }
  }
  return found;
}

async function phasePage(
  database: Transaction,
  params: EventPageParams,
  phase: "processed" | "queued",
): Promise<LedgerEvent[]> {
  const values: unknown[] = [params.sessionId, params.limit];
  const where = [`session_id = $1`, `processed_at is ${phase === "queued" ? "" : "not "}null`];
  const [comparison, direction] = params.order === "asc" ? [">", "asc"] : ["<", "desc"];
  const bounds = { gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;
  for (const [name, operator] of Object.entries(bounds)) {
    const bound = params.createdAt[name as keyof typeof bounds];
    if (bound !== undefined) {
      values.push(bound);
      where.push(`processed_at ${operator} $${values.length}`);
    }
  }
  if (params.threadId !== null) {
    values.push(params.threadId);
    where.push(`thread_id = $${values.length}`);
  }
  if (params.types !== null) {
    values.push(params.types);
    where.push(`type = any($${values.length}::text[])`);
  }
  if (params.after !== null) {
    values.push(params.after.seq);
    if (phase === "queued") {
      where.push(`seq ${comparison} $${values.length}`);
    } else {
      values.push(params.after.processedAt);
      where.push(`(processed_at, seq) ${comparison} ($${values.length}::timestamptz, $${values.length - 1}::bigint)`);
    }
  }
  const order = phase === "queued" ? `seq ${direction}` : `processed_at ${direction}, seq ${direction}`;
  const { rows } = await database.query<EventRow>(
    `select ${COLUMNS} from events where ${where.join(" and ")} order by ${order} limit $2`,
    values,
  );
  return rows.map(toEvent);
}
