import type { Transaction } from "../db/transaction.ts";
import type { LedgerEvent } from "./event.ts";
import { COLUMNS, type EventRow, toEvent } from "./read.ts";

/** A place in a list of events: among those that were processed when the list was begun, or among the rest. */
export type EventPosition =
  | { readonly phase: "processed"; readonly processedAt: Date; readonly seq: number }
  | { readonly phase: "rest"; readonly seq: number };

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
  /** The session's last stamp when the first page was read; every further page goes by it. */
  readonly asOf: Date;
  readonly after: EventPosition | null;
  readonly limit: number;
  /** About how many bytes of payload at most; one event in any case. */
  readonly bytes: number;
}

type Phase = EventPosition["phase"];

/**
 * A page of events by `processed_at`, then receipt; what was queued when the list was begun comes last, or first when
 * descending, by receipt.
 *
 * Each direction is two index ranges glued together, because a row comparison with nulls has no index: what was
 * processed by the first page's instant, and the rest. So a page costs the same at any length of the session, and an
 * event that is stamped between two pages keeps its place: it is in exactly one of them. New events join the rest.
 */
export async function eventPage(
  database: Transaction,
  params: EventPageParams,
): Promise<{ readonly events: LedgerEvent[]; readonly more: boolean }> {
  const order: Phase[] = params.order === "asc" ? ["processed", "rest"] : ["rest", "processed"];
  const phases = order.slice(params.after === null ? 0 : order.indexOf(params.after.phase));
  // One more than asked tells whether there is another page.
  const values: unknown[] = [params.sessionId, params.limit + 1, params.asOf, params.bytes];
  const ranges = phases.map((phase) => range(params, phase, values));
  const direction = params.order;
  const sorting = `place, case when processed_at <= $3 then processed_at end ${direction}, seq ${direction}`;
  const { rows } = await database.query<EventRow & { found: number }>(
    `select * from (
       select page.*, count(*) over () as found,
              sum(octet_length(payload)) over (order by ${sorting}) - octet_length(payload) as before
         from (select * from (${ranges.map((sql, place) => `(select ${place} as place, range.* from (${sql}) range)`).join(" union all ")}) listed
                order by ${sorting} limit $2) page
     ) sized where before < $4 order by ${sorting}`,
    values,
  );
  const events = rows.slice(0, params.limit).map(toEvent);
  return { events, more: (rows[0]?.found ?? 0) > events.length };
}

/** The place of an event in the list that was begun at that instant. */
export function positionOf(event: LedgerEvent, asOf: Date): EventPosition {
  return event.processedAt !== null && event.processedAt <= asOf
    ? { phase: "processed", processedAt: event.processedAt, seq: event.seq }
    : { phase: "rest", seq: event.seq };
}

/** One index range of a page; adds its parameters to `values`, which hold session, limit, instant and bytes first. */
function range(params: EventPageParams, phase: Phase, values: unknown[]): string {
  const parameter = (value: unknown) => {
    values.push(value);
    return `$${values.length}`;
  };
  const where = [
    "session_id = $1",
    phase === "rest" ? "(processed_at is null or processed_at > $3)" : "processed_at <= $3",
  ];
  const [comparison, direction] = params.order === "asc" ? [">", "asc"] : ["<", "desc"];
  const bounds = { gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;
  for (const [name, operator] of Object.entries(bounds)) {
    const bound = params.createdAt[name as keyof typeof bounds];
    if (bound !== undefined) {
      where.push(`processed_at ${operator} ${parameter(bound)}`);
    }
  }
  if (params.threadId !== null) {
    where.push(`thread_id = ${parameter(params.threadId)}`);
  }
  if (params.types !== null) {
    where.push(`type = any(${parameter(params.types)}::text[])`);
  }
  const { after } = params;
  if (after?.phase === "rest" && phase === "rest") {
    where.push(`seq ${comparison} ${parameter(after.seq)}`);
  } else if (after?.phase === "processed" && phase === "processed") {
    where.push(
      `(processed_at, seq) ${comparison} (${parameter(after.processedAt)}::timestamptz, ${parameter(after.seq)}::bigint)`,
    );
  }
  const order = phase === "rest" ? `seq ${direction}` : `processed_at ${direction}, seq ${direction}`;
  return `select ${COLUMNS} from events where ${where.join(" and ")} order by ${order} limit $2`;
}
