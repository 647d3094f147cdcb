/**
 * Where a branch stands: all that a new process needs to go on from there.
 *
 * A position is replaced whole and never changed in place, except for the iterations of a Map, which are replaced one
 * by one. It can therefore be written at any instant: what is written is always a place to go on from.
 */

import type { Json, JsonObject } from "./json.ts";

export interface Position {
  readonly state: string;
  readonly input: Json;
  /** Variables that this scope has assigned; those of outer scopes are with the outer branches. */
  readonly variables: JsonObject;
  readonly enteredAt: number;
  /** Event number of the entry, which failure messages quote. */
  readonly enteredEvent: number;
  /** Attempts used, per retrier of the state. */
  readonly retries: readonly number[];
  /** What the state is in the middle of; null: begin, or invoke again. */
  readonly activity: Activity | null;
}

export type Activity = WaitActivity | BackoffActivity | CallbackActivity | MapActivity;

/** A Wait state, until the instant. */
interface WaitActivity {
  readonly kind: "wait";
  readonly until: number;
}

/** Between two attempts. */
interface BackoffActivity {
  readonly kind: "backoff";
  readonly until: number;
}

/** A task with a token. The token and the deadlines outlive the process. */
export interface CallbackActivity {
  readonly kind: "callback";
  readonly token: string;
  readonly deadline: number | null;
  readonly heartbeatSeconds: number | null;
  readonly heartbeatDeadline: number | null;
  /** The function has returned and is not invoked again. */
  readonly submitted: boolean;
  /** Answered, and the answer acknowledged to its sender. */
  readonly answer: TaskAnswer | null;
}

export type TaskAnswer = { readonly output: Json } | { readonly error: string | null; readonly cause: string | null };

export interface MapActivity {
  readonly kind: "map";
  readonly items: readonly Json[];
  readonly maxConcurrency: number;
  readonly iterations: Iteration[];
}

type Iteration =
  | { readonly status: "pending" }
  | { readonly status: "running"; readonly branch: PositionHolder }
  | { readonly status: "succeeded"; readonly output: Json };

/** A branch in memory; written as its position. */
export interface PositionHolder {
  readonly position: Position;
  toJSON(): Position;
}

/** Undoes what writing did to the running iterations. */
export function revivePosition(written: Position): Position {
  const { activity } = written;
  if (activity?.kind !== "map") return written;
  return { ...written, activity: { ...activity, iterations: activity.iterations.map(reviveIteration) } };
}

function reviveIteration(iteration: Iteration): Iteration {
  if (iteration.status !== "running") return iteration;
  // A branch is written as its position (see toJSON), which the type of the in-memory iteration does not show.
  const position = revivePosition(iteration.branch as unknown as Position);
  return { status: "running", branch: { position, toJSON: () => position } };
}
