/**
 * One execution under way: its branches in memory, its counters, and its row in the database.
 *
 * What must survive is written before the next effect on the outside: before a function is invoked, a token handed out,
 * a wait begun or the execution closed, everything that led there is in the database. Choice, Pass and Succeed have no
 * effect and are written together with what follows them; after a crash they are evaluated again. An execution that has
 * only just been inserted is written already, so that its first task is invoked without another statement.
 *
 * At most one write is under way and one waits, which covers all changes made meanwhile: ten iterations of a Map that
 * finish together cost two writes.
 */

import type { Branch, ExecutionContext, ExtraBindings } from "./branch.ts";
import type { Clock } from "./clock.ts";
import type { StateMachineDefinition } from "./definition.ts";
import type { ExecutionStore } from "./execution-store.ts";
import type { EvaluationScope } from "./expression.ts";
import { Halt, Halted } from "./halt.ts";
import type { Invoke } from "./invoke.ts";
import type { Json, JsonObject } from "./json.ts";
import { StatesError } from "./states-error.ts";
import type { TaskTokens } from "./task-token.ts";

/** History events that end a Standard execution; the last of them is ExecutionFailed. */
const MAXIMUM_HISTORY_EVENTS = 25_000;

/** Sum of an execution's variables. */
export const MAXIMUM_VARIABLE_BYTES = 10 * 1024 * 1024;

/** What executions share. */
export interface Environment {
  readonly clock: Clock;
  readonly invoke: Invoke;
  readonly store: ExecutionStore;
  readonly tokens: TaskTokens;
  readonly random: () => number;
}

/** The facts of an execution that never change. */
export interface ExecutionIdentity {
  readonly arn: string;
  readonly name: string;
  readonly stateMachine: string;
  readonly stateMachineArn: string;
  readonly input: Json;
  readonly startDate: Date;
}

export interface Counters {
  readonly historyEvents: number;
  readonly statesEntered: number;
}

export type Outcome =
  | { readonly status: "SUCCEEDED"; readonly output: string }
  | { readonly status: "FAILED" | "ABORTED"; readonly error: string | null; readonly cause: string | null };

export class Execution {
  readonly identity: ExecutionIdentity;
  readonly environment: Environment;
  readonly machine: StateMachineDefinition;
  readonly halt = new Halt();
  readonly context: ExecutionContext;
  /** Set by the first state that is entered. */
  root: Branch | null = null;
  #historyEvents: number;
  #statesEntered: number;
  #unsaved = false;
  #writing: Promise<void> | null = null;
  #nextWrite: Promise<void> | null = null;
  #outcome: Promise<Date> | null = null;

  constructor(
    identity: ExecutionIdentity,
    machine: StateMachineDefinition,
    environment: Environment,
    counters: Counters = { historyEvents: 1, statesEntered: 0 },
  ) {
    this.identity = identity;
    this.machine = machine;
    this.environment = environment;
    // The first event is ExecutionStarted.
    this.#historyEvents = counters.historyEvents;
    this.#statesEntered = counters.statesEntered;
    this.context = {
      Execution: {
        Id: identity.arn,
        Name: identity.name,
        Input: identity.input,
        StartTime: identity.startDate.toISOString(),
      },
      StateMachine: { Id: identity.stateMachineArn, Name: identity.stateMachine },
    };
  }

  get counters(): Counters {
    return { historyEvents: this.#historyEvents, statesEntered: this.#statesEntered };
  }

  /** Adds to the history, and fails the execution where Step Functions would. */
  count(events: number): void {
    if (this.#historyEvents + events >= MAXIMUM_HISTORY_EVENTS) {
      this.#historyEvents = MAXIMUM_HISTORY_EVENTS - 1;
      throw new StatesError(
        "States.Runtime",
        `The execution reached the maximum number of history events (${MAXIMUM_HISTORY_EVENTS}).`,
      );
    }
    this.#historyEvents += events;
  }

  /** For events that tell of a failure: the failure they belong to is reported, not the full history. */
  countFailure(events: number): void {
    this.#historyEvents = Math.min(this.#historyEvents + events, MAXIMUM_HISTORY_EVENTS - 1);
  }

  /** The position at the entry of a state. The caller puts the branch there. */
  enterState(state: string, input: Json, variables: JsonObject): Branch["position"] {
    this.count(1);
    this.#statesEntered += 1;
    return {
      state,
      input,
      variables,
      enteredAt: this.environment.clock.now(),
      enteredEvent: this.#historyEvents,
      retries: [],
      activity: null,
    };
  }

  evaluationScope(branch: Branch, extra: ExtraBindings = {}): EvaluationScope {
    return branch.evaluationScope(this.context, extra, () => this.countFailure(1));
  }

  /** Something happened that must not happen again for no reason: it is written before the next effect. */
  markUnsaved(): void {
    this.#unsaved = true;
  }

  /** Call before every effect on the outside. A draining execution goes no further. */
  async beforeEffect(branch: Branch): Promise<void> {
    await this.saved();
    if (!branch.scope.halt.live) throw new Halted();
  }

  /** Resolves when all changes up to now are in the database. */
  async saved(): Promise<void> {
    if (this.#unsaved) await this.save();
    else if (this.#writing) await this.#writing;
  }

  save(): Promise<void> {
    if (this.#nextWrite) return this.#nextWrite;
    if (!this.#writing) return this.#write();
    this.#nextWrite = this.#writing
      .catch(() => undefined)
      .then(() => {
        this.#nextWrite = null;
        return this.#write();
      });
    return this.#nextWrite;
  }

  #write(): Promise<void> {
    this.#unsaved = false;
    const written = this.environment.store
      .savePosition(this.identity.arn, JSON.stringify(this.root), this.counters)
      .then((owned) => {
        if (owned) return;
        // Another process has taken the execution over, or it is closed: this one must not touch it any more.
        this.halt.halt();
        throw new Halted();
      })
      .finally(() => {
        if (this.#writing === written) this.#writing = null;
      });
    this.#writing = written;
    return written;
  }

  /** Ends the execution. The first outcome counts; every caller gets its stop date, or Halted when it was lost. */
  close(outcome: Outcome): Promise<Date> {
    this.#outcome ??= this.#close(outcome);
    return this.#outcome;
  }

  get closing(): boolean {
    return this.#outcome !== null;
  }

  async #close(outcome: Outcome): Promise<Date> {
    this.halt.halt();
    // ExecutionSucceeded, ExecutionFailed or ExecutionAborted: the one event for which there is always room.
    this.#historyEvents += 1;
    const stopDate = new Date(this.environment.clock.now());
    // Whoever answered a token waits for its write, which would find nothing to change once the row is closed.
    while (this.#nextWrite ?? this.#writing) await (this.#nextWrite ?? this.#writing)?.catch(() => undefined);
    const owned = await this.environment.store.close(this.identity.arn, outcome, stopDate, this.counters);
    if (!owned) throw new Halted();
    return stopDate;
  }
}
