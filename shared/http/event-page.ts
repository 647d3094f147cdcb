import type { Transaction } from "../db/transaction.ts";
import { type LedgerEvent, publicEvent } from "../ledger/event.ts";
import { type EventFilters, type EventPosition, eventPage } from "../ledger/event-page.ts";
import { rawJson } from "./answers.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";

/** Reads and answers a page of events. The cursor is bound to the session and to every filter. */
export async function answerEventPage(
  database: Transaction,
  filters: EventFilters,
  asked: { readonly limit: number; readonly page: string | undefined },
): Promise<never> {
  const after = asked.page === undefined ? null : readPosition(decodeCursor("events", filters, asked.page));
  const found = await eventPage(database, { ...filters, after, limit: asked.limit + 1 });
  const page = found.slice(0, asked.limit);
  const last = page.at(-1);
  const next =
    found.length > page.length && last !== undefined ? encodeCursor("events", filters, positionOf(last)) : null;
  return rawJson(`{"data":[${page.map(publicEvent).join(",")}],"next_page":${JSON.stringify(next)}}`);
}

function positionOf(event: LedgerEvent): [string | null, number] {
  return [event.processedAt?.toISOString() ?? null, event.seq];
}

function readPosition(value: unknown): EventPosition {
  const [processedAt, seq] = value as [string | null, number];
  return { processedAt: processedAt === null ? null : new Date(processedAt), seq };
}
