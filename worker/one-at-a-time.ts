/** Runs tasks of one name after another, in the order they came; tasks of different names run side by side. */
export class OneAtATime {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<Value>(name: string, task: () => Promise<Value>): Promise<Value> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const mine = before.catch(() => {}).then(task);
    this.#last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name);
    }
  }
}
