/**
 * The input and output of every state of `turn.asl.json`.
 *
 * Ids and coded outcomes only: a Standard execution fails for good above 256 KiB of state, and its history is
 * readable by whoever may read executions, so no conversation text ever enters it.
 */

/** Names one segment of one turn. The execution is called `<turnId>-<segment>`; a stale segment may not write. */
export interface TurnRef {
  readonly turnId: string;
  /** Counts the executions started for the turn, from 1. */
  readonly segment: number;
}

/** What `Route` decides on. `stop` means that this segment lost its right to the turn and must leave no trace. */
export type ModelOutcome = "end" | "tools" | "continue" | "retry" | "hand_over" | "stop";

export interface CallModelOutput extends TurnRef {
  readonly next: ModelOutcome;
  /** Only with `retry`: how long `Backoff` waits, in seconds (a whole number, 1 to 3,600). */
  readonly delaySeconds?: number;
  /** Only with `retry`: which retry of the turn it is, so that a late handler of an earlier wait is told apart. */
  readonly retry?: number;
}

/** What `AfterGate` decides on: first the calls in `run`, then `next`. */
export interface GateOutput extends TurnRef {
  /** Ids of the server-side tool steps that may run now; at most 128. */
  readonly run: readonly string[];
  /** The round whose calls these are, so that a late handler of an earlier wait is told apart. */
  readonly round: number;
  readonly next: "wait" | "continue" | "stop";
}

export interface RunToolInput extends TurnRef {
  readonly stepId: string;
}

/** Input of AwaitActions; the token is what `SendTaskSuccess` needs. */
export interface AwaitInput extends TurnRef {
  readonly taskToken: string;
  readonly round: number;
}

export interface BackoffInput extends TurnRef {
  readonly taskToken: string;
  readonly retry: number;
}

export interface FailTurnInput extends TurnRef {
  /** The error's name (`States.Timeout`, a class name); never its message, which may quote the conversation. */
  readonly error: string;
}

/** Output of the states after which the execution ends. */
export interface EndOutput extends TurnRef {
  readonly next: "stop";
}
