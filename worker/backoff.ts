/** `baseMs` doubled per attempt (from 0), capped, minus up to a quarter so that a fleet does not return in step. */
export function backoffMs(attempt: number, baseMs: number, capMs: number, random: () => number = Math.random): number {
  return Math.min(baseMs * 2 ** attempt, capMs) * (1 - random() * 0.25);
}
