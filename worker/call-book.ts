import type { BetaManagedAgentsStreamSessionEvents } from "@anthropic-ai/sdk/resources/beta/sessions/events";
import type { ToolRequest } from "./tools/toolset.ts";

export type SessionEvent = BetaManagedAgentsStreamSessionEvents;

/** A call of one of our tools that has no result yet. */
export interface ToolCall extends ToolRequest {
  /** Id of its `agent.tool_use` event. */
  readonly id: string;
  /** The server's trace of the turn, for the log; null where the server keeps none. */
  readonly traceId: string | null;
}

interface OpenCall extends ToolCall {
  readonly permission: string | null;
  readonly threadId: string | null;
}

/** The types of events that the book reads; the history is asked for these alone. */
export const BOOK_EVENT_TYPES = [
  "agent.tool_use",
  "agent.tool_result",
  "user.tool_result",
  "user.tool_confirmation",
  "session.status_running",
  "session.status_idle",
  "session.status_rescheduled",
  "session.status_terminated",
  "session.thread_status_terminated",
] as const;

/**
 * What the session's events say about our calls: which are open, which of these may run, whether the turn is over.
 * The order of events matters only as far as the server guarantees it, and repeats change nothing, since a reconnect
 * shows every event again.
 */
export class CallBook {
  readonly #owns: (toolName: string) => boolean;
  readonly #open = new Map<string, OpenCall>();
  readonly #answered = new Set<string>();
  readonly #verdicts = new Map<string, "allow" | "deny">();
  readonly #endedThreads = new Set<string>();
  #turnOver = false;
  #sessionEnded = false;

  constructor(owns: (toolName: string) => boolean) {
    this.#owns = owns;
  }

  ingest(event: SessionEvent): void {
    switch (event.type) {
      case "agent.tool_use":
        if (!this.#owns(event.name) || this.#answered.has(event.id)) return;
        this.#open.set(event.id, {
          id: event.id,
          name: event.name,
          input: event.input,
          idempotencyKey: added(event, "idempotency_key"),
          traceId: added(event, "trace_id"),
          permission: event.evaluated_permission ?? null,
          threadId: event.session_thread_id ?? null,
        });
        return;
      case "user.tool_result":
      case "agent.tool_result":
        this.close(event.tool_use_id);
        return;
      case "user.tool_confirmation":
        // Only a literal allow releases a call, and nothing takes a denial back.
        if (event.result !== "allow") this.#verdicts.set(event.tool_use_id, "deny");
        else if (!this.#verdicts.has(event.tool_use_id)) this.#verdicts.set(event.tool_use_id, "allow");
        return;
      case "session.thread_status_terminated":
        this.#endedThreads.add(event.session_thread_id);
        return;
      case "session.status_idle":
        this.#turnOver = event.stop_reason.type !== "requires_action";
        return;
      case "session.status_running":
      case "session.status_rescheduled":
        this.#turnOver = false;
        return;
      case "session.status_terminated":
      case "session.deleted":
        this.#sessionEnded = true;
        return;
      default:
        return;
    }
  }

  /** Idle, and not because it waits for an answer. */
  get turnOver(): boolean {
    return this.#turnOver;
  }

  /** Terminated, archived or deleted. */
  get sessionEnded(): boolean {
    return this.#sessionEnded;
  }

  /** The call has its result, from whomever. */
  close(callId: string): void {
    this.#answered.add(callId);
    this.#open.delete(callId);
    this.#verdicts.delete(callId);
  }

  /** True while the call waits for a result and may be run. */
  mayRun(callId: string): boolean {
    const call = this.#open.get(callId);
    return call !== undefined && !this.#sessionEnded && this.#isPermitted(call) && !this.#isOrphaned(call);
  }

  /** The calls that may run, oldest first. */
  runnable(): readonly ToolCall[] {
    return [...this.#open.values()].filter((call) => this.mayRun(call.id));
  }

  #isPermitted(call: OpenCall): boolean {
    const verdict = this.#verdicts.get(call.id);
    if (call.permission === "deny" || verdict === "deny") return false;
    // A permission that we do not know is held like `ask`.
    return call.permission === null || call.permission === "allow" || verdict === "allow";
  }

  #isOrphaned(call: OpenCall): boolean {
    return call.threadId !== null && this.#endedThreads.has(call.threadId);
  }
}

/** A field that the official client does not know. */
function added(event: SessionEvent, field: "idempotency_key" | "trace_id"): string | null {
  const value = (event as { readonly [name in typeof field]?: unknown })[field];
  return typeof value === "string" ? value : null;
}
