/**
 * One attempt of an inline Map: every item goes through the item processor, at most so many at a time.
 *
 * The first iteration that fails fails the Map with its own error; its siblings are halted. Iterations that have
 * succeeded are kept in the position and not run again after a crash, only after a retry of the whole Map.
 */

import { Branch, type MapItem } from "./branch.ts";
import type { MapState } from "./definition.ts";
import type { Execution } from "./execution.ts";
import { Expression, evaluationError } from "./expression.ts";
import { type Halt, Halted } from "./halt.ts";
import { fitsPayload, type Json, jsonType } from "./json.ts";
import type { MapActivity } from "./position.ts";
import { runBranch } from "./run-branch.ts";
import { dataLimitExceeded, StatesError } from "./states-error.ts";

/** Concurrent iterations of an inline Map, whatever MaxConcurrency says. */
const MAXIMUM_CONCURRENCY = 40;

export async function attemptMap(execution: Execution, branch: Branch, state: MapState): Promise<Json> {
  try {
    const { activity } = branch.position;
    const map = activity?.kind === "map" ? activity : await begin(execution, branch, state);
    const outputs = await new MapRun(execution, branch, state, map).run();
    // MapStateSucceeded
    execution.count(1);
    return outputs;
  } catch (failure) {
    // MapStateFailed
    if (failure instanceof StatesError) execution.countFailure(1);
    throw failure;
  }
}

async function begin(execution: Execution, branch: Branch, state: MapState): Promise<MapActivity> {
  const scope = execution.evaluationScope(branch);
  const { maxConcurrency } = state;
  const items = state.items === null ? branch.position.input : await state.items.evaluate(scope);
  if (!Array.isArray(items)) {
    throw state.items instanceof Expression
      ? state.items.unexpected(scope, "array", items)
      : evaluationError(scope, `Map state input must be an array but was: ${jsonType(items)}`);
  }
  const concurrency = maxConcurrency instanceof Expression ? await maxConcurrency.evaluate(scope) : maxConcurrency;
  if (typeof concurrency !== "number" || !Number.isInteger(concurrency) || concurrency < 0) {
    throw evaluationError(scope, "The MaxConcurrency field must be a non-negative integer.");
  }
  // MapStateStarted
  execution.count(1);
  const activity: MapActivity = {
    kind: "map",
    items,
    maxConcurrency: concurrency,
    iterations: items.map(() => ({ status: "pending" })),
  };
  branch.setActivity(activity);
  return activity;
}

class MapRun {
  readonly #execution: Execution;
  readonly #branch: Branch;
  readonly #state: MapState;
  readonly #map: MapActivity;
  readonly #halt: Halt;
  #failure: unknown = null;

  constructor(execution: Execution, branch: Branch, state: MapState, map: MapActivity) {
    this.#execution = execution;
    this.#branch = branch;
    this.#state = state;
    this.#map = map;
    this.#halt = branch.scope.halt.inner();
  }

  async run(): Promise<Json[]> {
    const { iterations, maxConcurrency } = this.#map;
    // Items are taken in order, so that resumed iterations come first: each is back at its wait before a new one begins.
    const remaining = [...iterations.keys()].filter((index) => iterations[index]?.status !== "succeeded").values();
    const limit = Math.min(maxConcurrency || MAXIMUM_CONCURRENCY, MAXIMUM_CONCURRENCY, iterations.length);
    await Promise.all(Array.from({ length: limit }, () => this.#work(remaining)));
    this.#branch.scope.halt.forget(this.#halt);
    if (this.#failure !== null) throw this.#failure;
    return iterations.map((iteration) => (iteration.status === "succeeded" ? iteration.output : null));
  }

  /** Takes one item after the other from the shared iterator. */
  async #work(remaining: Iterator<number>): Promise<void> {
    for (let item = remaining.next(); !item.done; item = remaining.next()) {
      if (this.#failure !== null) return;
      try {
        await this.#iterate(item.value);
      } catch (failure) {
        this.#fail(failure);
      }
    }
  }

  async #iterate(index: number): Promise<void> {
    const { iterations } = this.#map;
    const iteration = iterations[index];
    const resumed = iteration?.status === "running" ? this.#place(index, iteration.branch.position) : null;
    const child = resumed ?? (await this.#start(index));
    const output = await runBranch(this.#execution, child);
    // MapIterationSucceeded
    this.#execution.count(1);
    iterations[index] = { status: "succeeded", output };
  }

  async #start(index: number): Promise<Branch> {
    const { itemSelector, itemProcessor } = this.#state;
    const mapItem = this.#mapItem(index);
    // MapIterationStarted
    this.#execution.count(1);
    const input =
      itemSelector === null
        ? mapItem.Value
        : await itemSelector.evaluate(this.#execution.evaluationScope(this.#branch, { mapItem }));
    if (!fitsPayload(JSON.stringify(input))) throw dataLimitExceeded(this.#state.name);
    if (this.#halt.halted) throw new Halted();
    return this.#place(index, this.#execution.enterState(itemProcessor.startAt, input, {}));
  }

  #place(index: number, position: Branch["position"]): Branch {
    const { scope, position: outer } = this.#branch;
    const child = new Branch(
      {
        machine: this.#state.itemProcessor,
        halt: this.#halt,
        outerVariables: { ...scope.outerVariables, ...outer.variables },
        mapItem: this.#mapItem(index),
      },
      position,
    );
    this.#map.iterations[index] = { status: "running", branch: child };
    return child;
  }

  #mapItem(index: number): MapItem {
    return { Index: index, Value: this.#map.items[index] ?? null };
  }

  #fail(failure: unknown): void {
    if (failure instanceof Halted) {
      // Ended from outside, or by the sibling that failed and has said why.
      this.#failure ??= failure;
      return;
    }
    if (this.#failure === null || this.#failure instanceof Halted) this.#failure = failure;
    const running = this.#map.iterations.filter((iteration) => iteration.status === "running").length;
    // MapIterationFailed, and MapIterationAborted of each sibling.
    this.#execution.countFailure(Math.max(running, 1));
    this.#halt.halt();
  }
}
