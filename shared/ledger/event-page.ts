import type { Transaction } from "../db/transaction.ts";
import type { LedgerEvent } from "./event.ts";
import { COLUMNS, type EventRow, toEvent } from "./read.ts";

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

type Phase = "processed" | "queued";

/**
 * A page of events by `processed_at` (queued ones last, or first when descending), then receipt.
 *
 * Each direction is two index ranges glued together, because a row comparison with nulls has no index: first what is
 * processed, then what is queued, or the other way round. So a page costs the same at any length of the session. They
 * are read by one statement: an event that is stamped meanwhile is in exactly one of them.
 */
export async function eventPage(database: Transaction, params: EventPageParams): Promise<LedgerEvent[]> {
  const order: Phase[] = params.order === "asc" ? ["processed", "queued"] : ["queued", "processed"];
  const start = params.after === null ? 0 : order.indexOf(params.after.processedAt === null ? "queued" : "processed");
  const bounded = Object.values(params.createdAt).some((bound) => bound !== undefined);
  const phases = order.slice(start).filter((phase) => !(bounded && phase === "queued"));
  if (phases.length === 0) {
    return [];
  }
  const values: unknown[] = [params.sessionId, params.limit];
  const ranges = phases.map((phase) => range(params, phase, phase === order[start] ? params.after : null, values));
  const direction = params.order;
  const { rows } = await database.query<EventRow>(
    `select * from (${ranges.map((sql, place) => `(select ${place} as place, range.* from (${sql}) range)`).join(" union all ")}) page
      order by place, processed_at ${direction}, seq ${direction} limit $2`,
    values,
  );
  return rows.map(toEvent);
}

/** One index range of a page; adds its parameters to `values`, which hold the session and the limit first. */
function range(params: EventPageParams, phase: Phase, after: EventPosition | null, values: unknown[]): string {
  const parameter = (value: unknown) => {
    values.push(value);
    return `$${values.length}`;
  };
  const where = ["session_id = $1", `processed_at is ${phase === "queued" ? "" : "not "}null`];
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
  if (after !== null) {
    where.push(
      phase === "queued"
        ? `seq ${comparison} ${parameter(after.seq)}`
        : `(processed_at, seq) ${comparison} (${parameter(after.processedAt)}::timestamptz, ${parameter(after.seq)}::bigint)`,
    );
  }
  const order = phase === "queued" ? `seq ${direction}` : `processed_at ${direction}, seq ${direction}`;
  return `select ${COLUMNS} from events where ${where.join(" and ")} order by ${order} limit $2`;
}
