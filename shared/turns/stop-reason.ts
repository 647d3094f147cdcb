import type { StopReason } from "../sessions/session-unit.ts";

/** What a provider's stop reason means for the turn. */
export type Routed =
  | { readonly next: "end"; readonly idle: StopReason }
  | { readonly next: "tools" }
  /** pause_turn: the same blocks are sent again, unchanged. */
  | { readonly next: "continue" }
  /** The context is full; nothing more can be asked. */
  | { readonly next: "exhausted" };

/**
 * Every stop reason has a defined end: an unknown one ends the turn, because going on might loop for ever.
 *
 * `max_tokens` ends the turn too. A tool call that it cut off has an input that is not JSON or not what was meant; it
 * is not run, and the next request answers it with an error (see `context/build-request.ts`).
 */
export function routeStop(stopReason: string | null, stopDetails: string | null, toolCalls: number): Routed {
  switch (stopReason) {
    case "tool_use":
      return toolCalls > 0 ? { next: "tools" } : { next: "end", idle: { type: "end_turn" } };
    case "pause_turn":
      return { next: "continue" };
    case "refusal":
      return { next: "end", idle: { type: "refusal", details: stopDetails } };
    case "model_context_window_exceeded":
      return { next: "exhausted" };
    default:
      return { next: "end", idle: { type: "end_turn" } };
  }
}
