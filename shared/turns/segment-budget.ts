/**
 * When a turn is handed over to a new execution. An execution fails for good at 25,000 history events
 * (aws-solutions/distributed-load-testing-on-aws#335), so it ends itself before 20,000, counted as if every task had
 * used up every retry. `segment-budget.test.ts` computes the two costs from the state machine.
 */
const SEGMENT_EVENTS = 20_000;

/** Most history events of one round without server-side calls, provider retries included. */
export const ROUND_EVENTS = 1350;

/** Most history events of one server-side call. */
export const CALL_EVENTS = 70;

/** Server-side calls that one pass through RunTools takes; further ones wait for the next pass. */
export const CALLS_PER_PASS = 40;

/** Whether another round, with as many server-side calls as a pass may take, might not fit any more. */
export function mustHandOver(segmentEvents: number): boolean {
  return segmentEvents + ROUND_EVENTS + CALLS_PER_PASS * CALL_EVENTS > SEGMENT_EVENTS;
}
