import { z } from "@hono/zod-openapi";
import { decodeCursor, encodeCursor } from "./cursor.ts";

/** Query of a list: how many, and from where. */
export const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(100).openapi({ description: "Items of a page, 1 to 1,000." }),
  page: z.string().optional().openapi({ description: "next_page of the page before." }),
});

/** `include_archived=true`; anything but true or false is refused. */
export const IncludeArchived = z
  .enum(["true", "false"])
  .default("false")
  .transform((value) => value === "true")
  .openapi({ type: "boolean", description: "Archived ones too; false by default." });

/** A repeated parameter (`statuses[]=idle&statuses[]=running`) as a list. */
export function repeated<Item extends z.ZodType<unknown, string>>(item: Item) {
  return z
    .union([z.string(), z.array(z.string()).max(100)])
    .transform((values) => (typeof values === "string" ? [values] : values))
    .pipe(z.array(item));
}

/** A bound of a time filter (`created_at[gte]=…`): RFC 3339 with any offset. */
export const Instant = z.iso.datetime({ offset: true }).transform((text) => new Date(text));

/** A page envelope. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({ data: z.array(item), next_page: z.string().nullable() });
}

/** The place of a row in a list that is ordered by creation: newest first, ids break ties. */
export interface CreatedPosition {
  readonly createdAt: Date;
  readonly id: string;
}

export function encodeCreated(
  list: string,
  filters: unknown,
  item: { readonly created_at: string; readonly id: string },
): string {
  return encodeCursor(list, filters, [item.created_at, item.id]);
}

export function decodeCreated(list: string, filters: unknown, page: string | undefined): CreatedPosition | null {
  if (page === undefined) {
    return null;
  }
  const [createdAt, id] = decodeCursor(list, filters, page) as [string, string];
  return { createdAt: new Date(createdAt), id };
}

/**
 * About how large a page may be: it ends before its limit when its items are large, and `next_page` goes on. A Lambda
 * answers 6 MB at most, with the body as a string inside JSON, where each quote and backslash takes two bytes.
 */
export const PAGE_BYTES = 2 * 1024 * 1024;

/** Of a list that was read one longer than asked: as many as were asked for and fit, one at least. */
export function pageThatFits<Item>(found: readonly Item[], limit: number): { page: Item[]; more: boolean } {
  let bytes = 0;
  const end = found.findIndex((item) => {
    const full = bytes >= PAGE_BYTES;
    bytes += Buffer.byteLength(JSON.stringify(item));
    return full;
  });
  const page = found.slice(0, Math.min(limit, end < 0 ? found.length : end));
  return { page, more: found.length > page.length };
}

/** Cuts a list that was read one longer than asked, and makes the cursor of the next page. */
export function cut<Item extends { readonly created_at: string; readonly id: string }>(
  list: string,
  filters: unknown,
  found: readonly Item[],
  limit: number,
): { data: Item[]; next_page: string | null } {
  const { page, more } = pageThatFits(found, limit);
  const last = page.at(-1);
  return { data: page, next_page: more && last !== undefined ? encodeCreated(list, filters, last) : null };
}
