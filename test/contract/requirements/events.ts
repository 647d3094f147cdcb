/** Section 2, 9.5, DESIGN 4 (ordering). */
export const EVENTS = [
  {
    id: "events:send:echo",
    section: "2.1",
    says: "the reply echoes the stored events in order, with id and processed_at",
  },
  {
    id: "events:send:queued",
    section: "2.1, 9.5",
    says: "a message is echoed with processed_at null and stamped once when consumed",
  },
  { id: "events:send:envelope", section: "2.1", says: "events is a list of 1 or more known client events" },
  { id: "events:send:server-types", section: "2.1", says: "what only the server writes cannot be sent" },
  { id: "events:send:all-or-nothing", section: "scope", says: "one bad event and none of the batch is stored" },
  { id: "events:send:archived", section: "2.1", says: "an archived session takes none" },
  { id: "events:send:own-fields", section: "2.1", says: "id and processed_at are the server's to set" },
  {
    id: "events:content:user-message",
    section: "2.1",
    says: "user.message takes text, image and document blocks, and keeps them",
  },
  {
    id: "events:content:user-message-closed",
    section: "2.1",
    says: "user.message takes no other blocks: redacted, search_result, tool blocks are a 400",
  },
  { id: "events:content:empty", section: "0, 2.1", says: "no content and empty text are a 400" },
  {
    id: "events:content:result",
    section: "2.1",
    says: "results take text, image, document and search_result blocks, or none",
  },
  { id: "events:content:sources", section: "2.1", says: "image and document sources are closed unions" },
  {
    id: "events:content:unknown-fields",
    section: "DESIGN 7",
    says: "unknown fields are refused in every block and source",
  },
  {
    id: "events:content:file",
    section: "scope",
    says: "file sources are a 422 that names files, until files are built",
  },
  {
    id: "events:native-tools",
    section: "2.2, DESIGN 5",
    says: "a call inside the model request shows as an allowed agent.tool_use and its agent.tool_result, bounded, without private data",
  },
  { id: "events:interrupt:running", section: "2.1", says: "an interrupt ends a running turn with one idle end_turn" },
  { id: "events:interrupt:idle", section: "9.2", says: "an interrupt of an idle session has no effect" },
  {
    id: "events:interrupt:waiting",
    section: "9.2, 2.1",
    says: "an interrupt closes pending calls with an error result and idles with end_turn",
  },
  {
    id: "events:interrupt:thread",
    section: "2.1",
    says: "session_thread_id may name the primary thread; an unknown one is refused",
  },
  {
    id: "events:custom-result",
    section: "2.1",
    says: "a custom result may come as soon as the use is seen, and is processed on receipt",
  },
  { id: "events:custom-result:rules", section: "2.1", says: "it answers a custom call of this session, once" },
  {
    id: "events:tool-result",
    section: "2.1",
    says: "a tool result answers a built-in call, is processed on receipt, and the turn goes on",
  },
  {
    id: "events:tool-result:rules",
    section: "2.1, DESIGN 6",
    says: "the same again is the stored event, another is a 409, an unknown id a 404",
  },
  { id: "events:confirmation:rules", section: "2.1", says: "a confirmation names a call that asked, allow or deny" },
  { id: "events:thread-id", section: "2.1", says: "session_thread_id of a result is set by the server" },
  { id: "events:define-outcome", section: "scope", says: "user.define_outcome is a 422 that names outcomes" },
  {
    id: "events:system-message",
    section: "2.1",
    says: "system.message is gated by the model endpoint: without the capability a 400 with model_does_not_support_mid_conversation_system, and nothing of the batch is stored",
  },
  {
    id: "events:system-message:rules",
    section: "2.1",
    says: "system.message: text only, at most one, last, directly after a message or result",
  },
  {
    id: "events:message-while-waiting",
    section: "F08",
    says: "a message while an action is required never starts a run beside the waiting one",
  },
  {
    id: "events:turn:sequence",
    section: "9.5, 0",
    says: "a plain turn is these events in this order, session.status_idle last",
  },
  { id: "events:turn:tools", section: "9.5", says: "a turn with an asking call is these events in this order" },
  { id: "events:turn:thread-status", section: "2.3", says: "the primary thread's status events are there too" },
  { id: "events:turn:usage", section: "2.3", says: "session.usage comes right before every session.status_idle" },
  {
    id: "events:turn:spans",
    section: "2.4",
    says: "each span start has one end that names it, with usage; also on error",
  },
  { id: "events:turn:stop-details", section: "2.6", says: "stop_details is null, or the details of a refusal" },
  {
    id: "events:turn:error",
    section: "2.7",
    says: "a dead provider: session.error exhausted, idle retries_exhausted, and the session goes on",
  },
] as const;

export const EVENT_LISTS = [
  {
    id: "event-list:order",
    section: "2.10, DESIGN 4",
    says: "by processed_at, nulls last, then receipt; desc is the reverse",
  },
  {
    id: "event-list:causal",
    section: "DESIGN 4",
    says: "a message queued during a turn is listed after that turn's answer",
  },
  { id: "event-list:pages", section: "2.10", says: "pages of any size give every event once, in both orders" },
  { id: "event-list:growing", section: "2.10", says: "events that arrive between pages come once, at the end" },
  { id: "event-list:limit", section: "0, scope", says: "limit is 1 to 1,000" },
  { id: "event-list:types", section: "2.10", says: "types[] filters by one or several" },
  { id: "event-list:time", section: "2.10", says: "four time bounds, compared with processed_at" },
  { id: "event-list:cursor", section: "DESIGN 7", says: "a cursor belongs to its session, order and filters" },
  { id: "event-list:ids", section: "2", says: "every event has a unique sevt_ id, a type and processed_at" },
  { id: "event-list:read-your-writes", section: "0", says: "an event seen on the stream is listed" },
] as const;
