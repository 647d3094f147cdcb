/** Time as the interpreter sees it; tests move it by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once, at the instant or soon after it. The returned function cancels. */
  at(instant: number, callback: () => void): () => void;
}

/** Longest delay of `setTimeout`; a longer one would fire at once. TimeoutSeconds may ask for three years. */
const LONGEST_TIMER_MILLISECONDS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  at(instant, callback) {
    let timer: NodeJS.Timeout;
    const arm = (): void => {
      const delay = Math.max(0, instant - Date.now());
      timer = setTimeout(
        () => (Date.now() >= instant ? callback() : arm()),
        Math.min(delay, LONGEST_TIMER_MILLISECONDS),
      );
    };
    arm();
    return () => clearTimeout(timer);
  },
};
