import { InvalidRequest } from "../contract/errors.ts";
import type { Session } from "../contract/sessions.ts";
import type { SessionFilters, SessionPosition } from "../sessions/list-sessions.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { pageThatFits } from "./paging.ts";

/**
 * The cursors of the session list, the one list that pages in both directions. A cursor holds a position and the side
 * of it; it is bound to its order. Other filters may change between pages, but a time filter that leaves the cursor's
 * own position out is refused: the page could not be next to the one before.
 */
interface Binding {
  readonly workspaceId: string;
  readonly order: "asc" | "desc";
}

export type PageStart = (SessionPosition & { readonly side: "after" | "before" }) | null;

export function pageFrom(list: Binding & Pick<SessionFilters, "createdAt">, page: string | undefined): PageStart {
  if (page === undefined) {
    return null;
  }
  const { workspaceId, order } = list;
  const [side, createdAt, id] = decodeCursor("sessions", { workspaceId, order }, page) as [
    "after" | "before",
    string,
    string,
  ];
  const instant = new Date(createdAt);
  const { gt, gte, lt, lte } = list.createdAt;
  const outside =
    (gt !== undefined && instant <= gt) ||
    (gte !== undefined && instant < gte) ||
    (lt !== undefined && instant >= lt) ||
    (lte !== undefined && instant > lte);
  if (outside) {
    throw new InvalidRequest("page: the cursor lies outside the created_at filter.");
  }
  return { side, createdAt: instant, id };
}

/** Cuts what was read one longer than asked, on the side that the page was read towards, and makes both cursors. */
export function pageLinks(
  binding: Binding,
  found: readonly Session[],
  limit: number,
  from: PageStart,
): { data: Session[]; next_page: string | null; prev_page: string | null } {
  const backwards = from?.side === "before";
  const { page, more } = pageThatFits(backwards ? found.toReversed() : found, limit);
  const data = backwards ? page.toReversed() : page;
  const cursor = (side: "after" | "before", session: Session | undefined) =>
    session === undefined ? null : encodeCursor("sessions", binding, [side, session.created_at, session.id]);
  const [first, last] = [data[0], data.at(-1)];
  if (backwards) {
    return { data, next_page: cursor("after", last), prev_page: more ? cursor("before", first) : null };
  }
  return {
    data,
    next_page: more ? cursor("after", last) : null,
    prev_page: from === null ? null : cursor("before", first),
  };
}
