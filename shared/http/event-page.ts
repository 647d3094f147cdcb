import type { Transaction } from "../db/transaction.ts";
import { publicEvent } from "../ledger/event.ts";
import { type EventFilters, type EventPosition, eventPage, positionOf } from "../ledger/event-page.ts";
import { lastStamp } from "../ledger/read.ts";
import { rawJson } from "./answers.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { PAGE_BYTES } from "./paging.ts";

/** What a cursor of this list holds, in JSON: the instant of the first page, and the last event's place. */
type Cursor = readonly [asOf: string, processedAt: string | null, seq: number];

/** Reads and answers a page of events. The cursor is bound to the session and to every filter. */
export async function answerEventPage(
  database: Transaction,
  filters: EventFilters,
  asked: { readonly limit: number; readonly page: string | undefined },
): Promise<never> {
  const cursor = asked.page === undefined ? null : (decodeCursor("events", filters, asked.page) as Cursor);
  const asOf = cursor === null ? await lastStamp(database, filters) : new Date(cursor[0]);
  const after = cursor === null ? null : readPosition(cursor);
  const { limit } = asked;
  const { events, more } = await eventPage(database, { ...filters, asOf, after, limit, bytes: PAGE_BYTES });
  const last = events.at(-1);
  const next =
    more && last !== undefined ? encodeCursor("events", filters, writeCursor(asOf, positionOf(last, asOf))) : null;
  return rawJson(`{"data":[${events.map(publicEvent).join(",")}],"next_page":${JSON.stringify(next)}}`);
}

function writeCursor(asOf: Date, position: EventPosition): Cursor {
  return [asOf.toISOString(), position.phase === "processed" ? position.processedAt.toISOString() : null, position.seq];
}

function readPosition([, processedAt, seq]: Cursor): EventPosition {
  return processedAt === null
    ? { phase: "rest", seq }
    : { phase: "processed", processedAt: new Date(processedAt), seq };
}
