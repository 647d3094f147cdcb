/**
 * Activations: the time from a claim to its end. One is fruitless when it leaves a call open that it could have run and
 * has answered none: a launcher that hands over to a process which never starts, a preparation that always fails. After
 * a fruitless one the next comes later, and after five in a row the session is told, instead of waiting for ever.
 */

/** How long the next claim waits after the first, second, … fruitless activation in a row, in seconds. */
const BACKOFF_SECONDS = [0, 2, 8, 30] as const;

export interface Activation {
  /** Calls that a worker could have run and that are still open. */
  readonly leftOpen: number;
  /** Whether any call of the session was answered or closed meanwhile. */
  readonly answered: boolean;
}

export interface Judgment {
  /** Fruitless activations in a row, this one included. */
  readonly fruitless: number;
  /** How long the next claim waits, in seconds; null when there is to be none. */
  readonly backoffSeconds: number | null;
}

/** What follows an activation, after `before` fruitless ones in a row. */
export function judgeActivation(before: number, activation: Activation): Judgment {
  if (activation.leftOpen === 0 || activation.answered) {
    return { fruitless: 0, backoffSeconds: 0 };
  }
  return { fruitless: before + 1, backoffSeconds: BACKOFF_SECONDS[before] ?? null };
}
