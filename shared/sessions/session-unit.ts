import { derivedId } from "../contract/ids.ts";
import type { SessionStatus, SessionUsage } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import { eventHash, type LedgerEvent, splice } from "../ledger/event.ts";
import type { ModelUsage } from "../model/model.ts";
import type { SessionRow } from "./session-row.ts";

/** Why a session stands still, in the API's words. `details` is JSON text, only with a refusal. */
export type StopReason =
  | { readonly type: "end_turn" }
  | { readonly type: "requires_action"; readonly eventIds: readonly string[] }
  | { readonly type: "retries_exhausted" }
  | { readonly type: "refusal"; readonly details: string | null };

export interface EventDraft {
  /** Derived from what the event describes, so that a repeat cannot add a second. */
  readonly id: string;
  readonly type: string;
  readonly threadId: string;
  /** JSON text of the type's own fields. */
  readonly payload: string;
  /** False for an input that waits for its turn. */
  readonly processed?: boolean;
}

/**
 * One transaction's writes to a session, gathered and written at once by `flush`: the events, the head of the ledger,
 * the status and the usage. It exists only while the session's row lock is held.
 */
export class SessionUnit {
  readonly session: SessionRow;
  readonly #transaction: Transaction;
  #events: (LedgerEvent & { readonly previousHash: Buffer; readonly hash: Buffer })[] = [];
  #stamps: { readonly eventId: string; readonly at: Date }[] = [];
  #changed = false;
  #now: Date;
  #seq: number;
  #hash: Buffer;
  #status: SessionStatus;
  #stopReason: string | null;
  #usage: ModelUsage;
  #activeMs: number;
  #runningSince: Date | null;

  constructor(transaction: Transaction, session: SessionRow) {
    this.session = session;
    this.#transaction = transaction;
    this.#now = session.now;
    this.#seq = session.lastSeq;
    this.#hash = session.lastHash;
    this.#status = session.status;
    this.#stopReason = session.stopReason;
    this.#usage = session.usage;
    this.#activeMs = session.activeMs;
    this.#runningSince = session.runningSince;
  }

  get status(): SessionStatus {
    return this.#status;
  }

  /** The position of the last event, those of this unit included. */
  get lastSeq(): number {
    return this.#seq;
  }

  /** True when `flush` will change what a stream shows. */
  get changesLedger(): boolean {
    return this.#changed;
  }

  append(draft: EventDraft): LedgerEvent {
    this.#changed = true;
    this.#seq += 1;
    const event: LedgerEvent = {
      sessionId: this.session.id,
      seq: this.#seq,
      id: draft.id,
      threadId: draft.threadId,
      type: draft.type,
      payload: draft.payload,
      receivedAt: this.#now,
      processedAt: draft.processed === false ? null : this.#now,
    };
    const previousHash = this.#hash;
    this.#hash = eventHash(previousHash, event);
    this.#events.push({ ...event, previousHash, hash: this.#hash });
    return event;
  }

  /**
   * Marks a queued event as taken up now: an instant after everything before it, because lists order by it and the
   * event's position is an old one.
   */
  stamp(eventId: string): void {
    this.#changed = true;
    this.#now = new Date(this.#now.getTime() + 1);
    this.#stamps.push({ eventId, at: this.#now });
  }

  addUsage(usage: ModelUsage): void {
    this.#usage = {
      inputTokens: this.#usage.inputTokens + usage.inputTokens,
      outputTokens: this.#usage.outputTokens + usage.outputTokens,
      cacheReadInputTokens: this.#usage.cacheReadInputTokens + usage.cacheReadInputTokens,
      cacheCreationInputTokens: this.#usage.cacheCreationInputTokens + usage.cacheCreationInputTokens,
      webSearchRequests: this.#usage.webSearchRequests + usage.webSearchRequests,
      webFetchRequests: this.#usage.webFetchRequests + usage.webFetchRequests,
    };
  }

  /** The thread and the session begin to work. `cause` names what started it: its events' ids derive from it. */
  run(threadId: string, cause: string): void {
    if (this.#status === "running") {
      return;
    }
    this.#status = "running";
    this.#stopReason = null;
    this.#runningSince ??= this.#now;
    this.append({
      id: this.#statusId("session.status_running", cause),
      type: "session.status_running",
      threadId,
      payload: "{}",
    });
    this.append({
      id: this.#statusId("session.thread_status_running", cause),
      type: "session.thread_status_running",
      threadId,
      payload: splice({ session_thread_id: threadId, agent_name: this.session.agentName }),
    });
  }

  /**
   * The thread and the session stand still. `session.status_idle` is the last event of a turn: a worker counts its
   * idle time from it, and anything after it would stop the count.
   */
  idle(threadId: string, cause: string, reason: StopReason): void {
    this.#status = "idle";
    this.#stopReason = reason.type;
    this.#stopClock();
    const stop = stopFields(reason);
    this.append({
      id: this.#statusId("session.thread_status_idle", cause),
      type: "session.thread_status_idle",
      threadId,
      payload: splice({ session_thread_id: threadId, agent_name: this.session.agentName }, stop),
    });
    this.append({
      id: this.#statusId("session.usage", cause),
      type: "session.usage",
      threadId,
      payload: splice({ usage: sessionUsage(this.#usage, this.#activeMs) }),
    });
    this.append({
      id: this.#statusId("session.status_idle", cause),
      type: "session.status_idle",
      threadId,
      payload: splice({}, stop),
    });
  }

  /** The provider is being waited for: running → rescheduling. */
  reschedule(threadId: string, cause: string): void {
    this.#status = "rescheduling";
    this.append({
      id: this.#statusId("session.status_rescheduled", cause),
      type: "session.status_rescheduled",
      threadId,
      payload: "{}",
    });
    this.append({
      id: this.#statusId("session.thread_status_rescheduled", cause),
      type: "session.thread_status_rescheduled",
      threadId,
      payload: splice({ session_thread_id: threadId, agent_name: this.session.agentName }),
    });
  }

  /** The end: archived, or broken beyond repair. */
  terminate(threadId: string, cause: string): void {
    this.#status = "terminated";
    this.#stopReason = null;
    this.#stopClock();
    this.append({
      id: this.#statusId("session.thread_status_terminated", cause),
      type: "session.thread_status_terminated",
      threadId,
      payload: splice({ session_thread_id: threadId, agent_name: this.session.agentName }),
    });
    this.append({
      id: this.#statusId("session.status_terminated", cause),
      type: "session.status_terminated",
      threadId,
      payload: "{}",
    });
  }

  #statusId(type: string, cause: string): string {
    return derivedId("sevt", this.session.id, type, cause);
  }

  #stopClock(): void {
    if (this.#runningSince !== null) {
      this.#activeMs += this.#now.getTime() - this.#runningSince.getTime();
      this.#runningSince = null;
    }
  }

  /**
   * Writes what was gathered: one statement, and another when queued events were stamped. May be called again: what
   * reads the ledger in between finds everything.
   */
  async flush(): Promise<void> {
    const { session } = this;
    const events = this.#events;
    if (this.#stamps.length > 0) {
      await this.#transaction.query(
        `update events e set processed_at = s.at from unnest($2::text[], $3::timestamptz[]) as s (id, at)
          where e.session_id = $1 and e.id = s.id and e.processed_at is null`,
        [session.id, this.#stamps.map((stamp) => stamp.eventId), this.#stamps.map((stamp) => stamp.at)],
      );
    }
    await this.#transaction.query(
      `with session as (
         update sessions set status = $3, last_seq = $4, last_hash = $5, last_processed_at = $6, updated_at = $6,
           input_tokens = $7, output_tokens = $8, cache_read_input_tokens = $9, cache_creation_input_tokens = $10,
           web_search_requests = $11, web_fetch_requests = $12, active_ms = $13, running_since = $14, stop_reason = $23
         where id = $1 returning primary_thread_id
       ), thread as (
         update threads set status = $3, updated_at = $6 from session where threads.id = session.primary_thread_id
       )
       insert into events (session_id, workspace_id, seq, id, thread_id, type, payload, processed_at, previous_hash, hash, received_at)
       select $1, $2, * from unnest($15::bigint[], $16::text[], $17::text[], $18::text[], $19::text[],
                                    $20::timestamptz[], $21::bytea[], $22::bytea[], $24::timestamptz[])`,
      [
        session.id,
        session.workspaceId,
        this.#status,
        this.#seq,
        this.#hash,
        this.#now,
        this.#usage.inputTokens,
        this.#usage.outputTokens,
        this.#usage.cacheReadInputTokens,
        this.#usage.cacheCreationInputTokens,
        this.#usage.webSearchRequests,
        this.#usage.webFetchRequests,
        this.#activeMs,
        this.#runningSince,
        events.map((event) => event.seq),
        events.map((event) => event.id),
        events.map((event) => event.threadId),
        events.map((event) => event.type),
        events.map((event) => event.payload),
        events.map((event) => event.processedAt),
        events.map((event) => event.previousHash),
        events.map((event) => event.hash),
        this.#stopReason,
        events.map((event) => event.receivedAt),
      ],
    );
    this.#events = [];
    this.#stamps = [];
  }
}

function stopFields(reason: StopReason): { stop_reason: string; stop_details: string } {
  const fields =
    reason.type === "requires_action" ? { type: reason.type, event_ids: reason.eventIds } : { type: reason.type };
  const details = reason.type === "refusal" ? reason.details : null;
  return { stop_reason: JSON.stringify(fields), stop_details: details ?? "null" };
}

/** The API's usage object. Times are in seconds with milliseconds. */
export function sessionUsage(usage: ModelUsage, activeMs: number): SessionUsage {
  return {
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    cache_read_input_tokens: usage.cacheReadInputTokens,
    cache_creation: { ephemeral_5m_input_tokens: usage.cacheCreationInputTokens, ephemeral_1h_input_tokens: 0 },
    active_seconds: activeMs / 1000,
    server_tool_use: { web_search_requests: usage.webSearchRequests, web_fetch_requests: usage.webFetchRequests },
  };
}
