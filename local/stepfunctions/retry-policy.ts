/** Retry and Catch as pure rules: which retrier answers a failure, after which delay, and which catcher takes it. */

import type { Catcher, Retrier } from "./definition.ts";
import { matchesError, type StatesError } from "./states-error.ts";

export interface RetryDecision {
  readonly delayMilliseconds: number;
  /** Attempts used of each retrier, this one included. */
  readonly retries: readonly number[];
}

/**
 * The first retrier that names the error decides; when its attempts are used up, later ones are not asked.
 * `retries` counts per retrier and starts anew each time the state is entered.
 */
export function decideRetry(
  retriers: readonly Retrier[],
  retries: readonly number[],
  failure: StatesError,
  random: () => number,
): RetryDecision | null {
  const index = retriers.findIndex((candidate) => matchesError(candidate.errorEquals, failure));
  const retrier = retriers[index];
  if (retrier === undefined) return null;
  const used = retries[index] ?? 0;
  if (used >= retrier.maxAttempts) return null;
  const seconds = Math.min(
    retrier.intervalSeconds * retrier.backoffRate ** used,
    retrier.maxDelaySeconds ?? Number.POSITIVE_INFINITY,
  );
  const share = retrier.jitterStrategy === "FULL" ? random() : 1;
  return {
    delayMilliseconds: Math.round(seconds * 1_000 * share),
    retries: retriers.map((_, position) => (retries[position] ?? 0) + (position === index ? 1 : 0)),
  };
}

export function findCatcher(catchers: readonly Catcher[], failure: StatesError): Catcher | null {
  return catchers.find((catcher) => matchesError(catcher.errorEquals, failure)) ?? null;
}
