/**
 * Step Functions in slow motion: every state of every execution is run when the test says so, once, twice or much later;
 * what is said to it arrives when the test says so, or never.
 */

import { isDatabaseError } from "../../shared/db/transaction.ts";
import type { Orchestrator } from "../../shared/ports/orchestrator.ts";
import type { Product } from "../../shared/product.ts";
import { STATE_HANDLERS, type StateName } from "../../shared/turns/state-handlers.ts";
import { TurnBusyError } from "../../shared/turns/turn-errors.ts";
import type { GateOutput, TurnRef } from "../../statemachines/turn-payload.ts";

export interface Execution {
  readonly name: string;
  readonly ref: TurnRef;
  /** The state that runs next; `closed` ended well, `failed` did not. */
  state: StateName | "closed" | "failed";
  input: Readonly<Record<string, unknown>>;
  /** A callback state that was entered: it waits for this. */
  token: string | null;
  /** Calls of RunTools that have not run yet, and where AfterGate goes when they have. */
  calls: readonly string[];
  after: GateOutput | null;
}

/** What was said and has not arrived yet. */
export interface Said {
  readonly what: string;
  arrive(): void;
}

const CALLBACKS: readonly string[] = ["AwaitActions", "Backoff"];

export class Executions {
  readonly all: Execution[] = [];
  readonly said: Said[] = [];
  /** Every invocation so far: what may come again, late. */
  readonly invocations: { readonly state: StateName; readonly input: Readonly<Record<string, unknown>> }[] = [];
  /** What a handler threw that is not the ordinary word for "come back". */
  readonly errors: string[] = [];
  /** Around every invocation. */
  watch: <T>(ref: TurnRef, action: () => Promise<T>) => Promise<T> = (_ref, action) => action();
  #tokens = 0;

  get open(): Execution[] {
    return this.all.filter(({ state }) => state !== "closed" && state !== "failed");
  }

  /** Executions whose next step is a handler's; the others wait for an answer. */
  get runnable(): Execution[] {
    return this.open.filter(({ token }) => token === null);
  }

  get waiting(): Execution[] {
    return this.open.filter(({ token }) => token !== null);
  }

  readonly orchestrator: Orchestrator = {
    start: async ({ name, input }) => {
      const there = this.all.find((execution) => execution.name === name);
      // The same name and input again is the same execution, while it runs.
      if (there !== undefined) return there.state === "closed" || there.state === "failed" ? "exists" : "started";
      this.said.push({ what: `start ${name}`, arrive: () => this.#start(name, JSON.parse(input) as TurnRef) });
      return "started";
    },
    find: async ({ name }) => {
      const there = this.all.find((execution) => execution.name === name);
      if (there === undefined) return "unknown";
      return there.state === "closed" || there.state === "failed" ? "ended" : "running";
    },
    release: async ({ taskToken, output }) => {
      if (!this.open.some(({ token }) => token === taskToken)) return "stale";
      this.said.push({
        what: `release ${taskToken}`,
        arrive: () => {
          const execution = this.open.find(({ token }) => token === taskToken);
          if (execution !== undefined) this.#afterGate(execution, JSON.parse(output) as GateOutput);
        },
      });
      return "released";
    },
  };

  #start(name: string, ref: TurnRef): void {
    if (this.all.some((execution) => execution.name === name)) return;
    this.all.push({ name, ref, state: "CallModel", input: { ...ref }, token: null, calls: [], after: null });
  }

  /** Runs the next state of an execution and goes on from its answer. */
  async run(product: Product, execution: Execution): Promise<void> {
    const { state } = execution;
    if (state === "closed" || state === "failed") return;
    const input = this.#inputOf(execution);
    if (CALLBACKS.includes(state)) {
      // The token is good from the moment on that the state is entered, before its handler has answered.
      execution.token = input["taskToken"] as string;
      await this.invoke(product, state, input);
      return;
    }
    const answer = await this.invoke(product, state, input);
    // Where it failed, the state's Retry comes back.
    if (answer !== FAILED && execution.state === state) this.#advance(execution, answer);
  }

  /** The same state once more, its answer lost. A callback state gets another token then, and the old one is dead. */
  async repeat(product: Product, execution: Execution): Promise<void> {
    const { state } = execution;
    if (state === "closed" || state === "failed") return;
    const input = this.#inputOf(execution);
    if (CALLBACKS.includes(state) && execution.token !== null) execution.token = input["taskToken"] as string;
    await this.invoke(product, state, input);
  }

  /** An invocation that nobody waits for any more. Where the database refuses what it writes, nobody hears of it. */
  async late(product: Product, n: number): Promise<string> {
    const { state, input } = this.invocations[n % this.invocations.length] ?? { state: "CallModel", input: {} };
    const action = () => STATE_HANDLERS[state](product, input, {});
    await this.watch<unknown>(input as unknown as TurnRef, action).catch((error: Error) => {
      if (!(error instanceof TurnBusyError || isDatabaseError(error))) throw error;
    });
    return `${state} ${JSON.stringify(input)}`;
  }

  async invoke(product: Product, state: StateName, input: Readonly<Record<string, unknown>>): Promise<unknown> {
    this.invocations.push({ state, input });
    try {
      return await this.watch<unknown>(input as unknown as TurnRef, () => STATE_HANDLERS[state](product, input, {}));
    } catch (error) {
      if (!(error instanceof TurnBusyError))
        this.errors.push(`${state} threw ${String((error as Error).stack ?? error)}`);
      return FAILED;
    }
  }

  /** The wait of a callback state is over. */
  timeOut(execution: Execution): void {
    if (execution.token === null) return;
    execution.token = null;
    enter(execution, execution.state === "Backoff" ? "CallModel" : "Hibernate");
  }

  #inputOf(execution: Execution): Readonly<Record<string, unknown>> {
    if (execution.state === "RunTool") return { ...execution.ref, stepId: execution.calls[0] };
    if (!CALLBACKS.includes(execution.state)) return execution.input;
    return { ...execution.input, taskToken: `token-${++this.#tokens}` };
  }

  #advance(execution: Execution, answer: unknown): void {
    switch (execution.state) {
      case "CallModel":
        this.#route(execution, answer as { next: string; retry?: number });
        return;
      case "RunTool": {
        execution.calls = execution.calls.slice(1);
        if (execution.calls.length === 0 && execution.after !== null) {
          this.#afterGate(execution, { ...execution.after, run: [] });
        }
        return;
      }
      case "GateTools":
      case "Hibernate":
        this.#afterGate(execution, answer as GateOutput);
        return;
      default:
        execution.state = "closed";
    }
  }

  #route(execution: Execution, answer: { readonly next: string; readonly retry?: number }): void {
    const next = {
      end: "CompleteTurn",
      tools: "GateTools",
      continue: "CallModel",
      retry: "Backoff",
      hand_over: "HandOver",
    };
    enter(
      execution,
      (next as Record<string, StateName>)[answer.next] ?? "closed",
      answer.retry === undefined ? {} : { retry: answer.retry },
    );
  }

  #afterGate(execution: Execution, answer: GateOutput): void {
    execution.token = null;
    if (answer.run.length > 0) {
      execution.calls = answer.run;
      execution.after = answer;
      execution.state = "RunTool";
    } else if (answer.next === "wait") {
      enter(execution, "AwaitActions", { round: answer.round });
    } else {
      enter(execution, answer.next === "continue" ? "CallModel" : "closed");
    }
  }
}

const FAILED = Symbol("failed");

function enter(execution: Execution, state: Execution["state"], more: Readonly<Record<string, unknown>> = {}): void {
  execution.state = state;
  execution.input = { ...execution.ref, ...more };
}
