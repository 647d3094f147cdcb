/** Sections 2.8, 2.9, DESIGN 7; threads of 1.3. */
export const STREAMS = [
  {
    id: "streams:open",
    section: "F17, DESIGN 7",
    says: "text/event-stream and a first byte at once, on a quiet session too",
  },
  { id: "streams:accept", section: "2.8", says: "no negotiation on Accept" },
  {
    id: "streams:frames",
    section: "2.8, F45",
    says: "every frame has event: and one data: line whose type is the same",
  },
  { id: "streams:position", section: "DESIGN 7", says: "id: is the ledger position, growing by receipt" },
  { id: "streams:from-now", section: "2.8", says: "without a position only what comes after the attach is shown" },
  { id: "streams:replay", section: "DESIGN 7", says: "Last-Event-ID replays what was missed exactly once" },
  { id: "streams:after", section: "scope", says: "?after= does the same" },
  { id: "streams:bad-position", section: "DESIGN 7", says: "a position that is none is a 400" },
  {
    id: "streams:stamped-again",
    section: "DESIGN 4",
    says: "a queued event comes again under its id when stamped, without id:",
  },
  {
    id: "streams:previews",
    section: "2.9",
    says: "asked for, a message is previewed: one start, deltas that are a prefix, then the event",
  },
  { id: "streams:previews:thinking", section: "2.9", says: "thinking previews are start-only" },
  { id: "streams:previews:opt-in", section: "2.9", says: "no previews unless asked for" },
  { id: "streams:previews:bad", section: "2.8", says: "another value of event_deltas[], or more than 100, is a 400" },
  { id: "streams:unknown-session", section: "1.1", says: "no such session: a 404 as JSON, not a stream" },
  { id: "streams:deleted", section: "2.3", says: "deletion: session.deleted, then the end of every stream" },
  { id: "streams:archived", section: "2.3", says: "archiving shows session.status_terminated" },
  {
    id: "streams:line-breaks",
    section: "F19",
    says: "line breaks in text stay inside one data line; none in event or id",
  },
  {
    id: "streams:keep-alive",
    section: "F16, F47",
    says: "a comment at least every 15 s while nothing happens, and the stream stays open",
  },
  { id: "streams:life", section: "F19, DESIGN 7", says: "at the end of its life a stream closes after a retry: hint" },
  {
    id: "streams:slow-reader",
    section: "scope",
    says: "a reader that takes nothing is cut off, not buffered without bound",
  },
  { id: "streams:lost-wake-up", section: "F47", says: "events are shown even when every wake-up is lost" },
  { id: "streams:attach", section: "0, DESIGN 7", says: "what is committed from the instant of attach is shown" },
  { id: "streams:access", section: "DESIGN 7", says: "a revoked key's streams end" },
  {
    id: "streams:cap:session",
    section: "DESIGN 7",
    says: "streams of a session are capped: 429 with retry-after, until one closes",
  },
  { id: "streams:cap:key", section: "DESIGN 7", says: "streams of a key are capped" },
  {
    id: "streams:restart",
    section: "F48",
    says: "a server stopped in mid-turn: every event once after the restart, and the turn finishes",
  },
] as const;

export const THREADS = [
  { id: "threads:list", section: "1.3", says: "the list holds the primary thread, whole" },
  { id: "threads:list:query", section: "1.3", says: "limit, page and statuses[] are taken" },
  { id: "threads:get", section: "1.3", says: "a thread is read by id; unknown, or another session's, is a 404" },
  { id: "threads:status", section: "1.3, 2.6", says: "its status follows the work; archived with its session" },
  { id: "threads:events", section: "2.10", says: "its events are those of the session, in pages" },
  { id: "threads:stream", section: "2.8", says: "its stream shows its events, replays and previews" },
] as const;
