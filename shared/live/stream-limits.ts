import { RateLimited } from "../contract/errors.ts";

/** Most streams at once that one process serves for one key, and of one session. */
export const STREAMS_PER_KEY = 2000;
export const STREAMS_PER_SESSION = 50;

/** Counts the open streams of this process, so that one client cannot take all of it. */
export class StreamLimits {
  readonly #open = new Map<string, number>();

  /** Takes a place, or throws `RateLimited`. Returns what gives it back; calling that twice is harmless. */
  take(keyId: string, sessionId: string): () => void {
    this.#check(keyId, STREAMS_PER_KEY, "with this key");
    this.#check(sessionId, STREAMS_PER_SESSION, "of this session");
    const taken = [keyId, sessionId];
    for (const name of taken) {
      this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    }
    return () => {
      for (const name of taken.splice(0)) {
        const left = (this.#open.get(name) ?? 1) - 1;
        if (left === 0) {
          this.#open.delete(name);
        } else {
          this.#open.set(name, left);
        }
      }
    };
  }

  #check(name: string, most: number, what: string): void {
    if ((this.#open.get(name) ?? 0) >= most) {
      throw new RateLimited(`${most} streams are open ${what}; close one, or try again later.`, { retryAfter: 5 });
    }
  }
}
