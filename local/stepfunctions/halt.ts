/**
 * Ends waits that will never be answered.
 *
 * A wait is parked when it needs nothing but time or an outside answer (a Wait state, a retry delay, a task whose token
 * is out), and running while a function works for it. A halt goes live → draining → halted:
 *  - draining ends the parked waits, now and from now on; running ones may still finish. Stopping begins with it.
 *  - halted ends every wait. An aborted execution and the siblings of a failed Map iteration go there at once.
 * Both are final. The branch behind an ended wait sees `Halted` and leaves its position as it stands.
 */

/** Not an error: the branch is no longer driven here. */
export class Halted {}

interface Wait {
  parked: boolean;
  end(): void;
}

/** The two sides of one wait. The first of `settle`, `fail` and a halt counts; what follows is ignored. */
export interface OpenWait<T> {
  settle(value: T): void;
  fail(reason: unknown): void;
  /** From running to parked. */
  park(): void;
  readonly open: boolean;
}

export class Halt {
  #phase: "live" | "draining" | "halted" = "live";
  readonly #waits = new Set<Wait>();
  readonly #inner = new Set<Halt>();

  get halted(): boolean {
    return this.#phase === "halted";
  }

  get live(): boolean {
    return this.#phase === "live";
  }

  drain(): void {
    if (this.#phase !== "live") return;
    this.#phase = "draining";
    for (const inner of this.#inner) inner.drain();
    for (const wait of [...this.#waits]) if (wait.parked) wait.end();
  }

  halt(): void {
    if (this.#phase === "halted") return;
    this.#phase = "halted";
    for (const inner of this.#inner) inner.halt();
    for (const wait of [...this.#waits]) wait.end();
  }

  /** A halt that follows this one, and may end before it. */
  inner(): Halt {
    const inner = new Halt();
    if (this.#phase === "draining") inner.drain();
    if (this.#phase === "halted") inner.halt();
    this.#inner.add(inner);
    return inner;
  }

  forget(inner: Halt): void {
    this.#inner.delete(inner);
  }

  /** Opens a wait. `begin` arms it and returns what to undo when it is over; it may settle the wait itself. */
  wait<T>(parked: boolean, begin: (wait: OpenWait<T>) => () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let open = true;
      let undo: (() => void) | null = null;
      const close = (act: () => void): void => {
        if (!open) return;
        open = false;
        this.#waits.delete(entry);
        undo?.();
        act();
      };
      const entry: Wait = { parked, end: () => close(() => reject(new Halted())) };
      const endIfHalted = (): void => {
        if (this.#phase === "halted" || (this.#phase === "draining" && entry.parked)) entry.end();
      };
      this.#waits.add(entry);
      endIfHalted();
      if (!open) return;
      undo = begin({
        settle: (value) => close(() => resolve(value)),
        fail: (reason) => close(() => reject(reason)),
        park: () => {
          entry.parked = true;
          endIfHalted();
        },
        get open() {
          return open;
        },
      });
      if (!open) undo();
    });
  }
}
