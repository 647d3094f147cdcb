/**
 * The live channel: wake-ups and preview deltas between the functions that write and the streams that read.
 *
 * Disposable by design. A message may be lost, late or doubled; a stream re-reads the ledger on its own, so nothing
 * that must arrive ever depends on this channel.
 */

/** The ledger of a session has grown (or a queued event got its stamp). */
export interface Wake {
  readonly type: "wake";
}

/** The session is gone: streams of it end. */
export interface Deleted {
  readonly type: "deleted";
}

/** A piece of a response that is still being written. Never stored. */
export interface Preview {
  readonly type: "preview";
  readonly threadId: string;
  /** The ledger position that a stream must have shown before this piece (the span's start). */
  readonly afterSeq: number;
  /** Counts the pieces of one event from 0; a gap ends the preview for that reader. */
  readonly piece: number;
  /** `event_start` or `event_delta`, ready to be sent. */
  readonly event:
    | { readonly type: "event_start"; readonly event: { readonly type: string; readonly id: string } }
    | {
        readonly type: "event_delta";
        readonly event_id: string;
        readonly delta: {
          readonly type: "content_delta";
          readonly index: number;
          readonly content: { readonly type: "text"; readonly text: string };
        };
      };
}

export type LiveMessage = Wake | Deleted | Preview;

/** A topic is a session id (`sesn_…`) for streams, or an environment id (`env_…`) for waiting workers. */
export interface LiveChannel {
  /** Never throws: a failure is logged by the adapter and otherwise without effect. */
  publish(topic: string, message: LiveMessage): Promise<void>;
  /**
   * Calls `listener` for each message published from now on, in order. `intervalMs` may be changed while subscribed:
   * an adapter that polls uses it, one that is told at once ignores it.
   */
  subscribe(topic: string, listener: (message: LiveMessage) => void): LiveSubscription;
}

export interface LiveSubscription {
  /** How often a polling adapter looks, in milliseconds. */
  pollEvery(intervalMs: number): void;
  close(): void;
}
