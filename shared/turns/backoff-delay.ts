/** The first wait, in seconds; each further one doubles it. */
const BASE_SECONDS = 1;
const MAX_SECONDS = 60;
/** A provider that asks for more than this is not waited for any longer. */
const MAX_RETRY_AFTER_SECONDS = 3600;

/**
 * How long to wait before a provider request is repeated, in whole seconds from 1: what the provider asked for, else
 * exponential with jitter (half fixed, half random, so that it never hammers and never synchronises).
 *
 * `random` is in [0, 1).
 */
export function retryDelaySeconds(retries: number, retryAfterMs: number | null, random: number): number {
  if (retryAfterMs !== null) {
    return Math.min(MAX_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(retryAfterMs / 1000)));
  }
  const ceiling = Math.min(MAX_SECONDS, BASE_SECONDS * 2 ** retries);
  return Math.max(1, Math.round(ceiling / 2 + (ceiling / 2) * random));
}
