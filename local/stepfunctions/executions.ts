/** The executions that this process drives: started, resumed, aborted, drained. */

import { isDeepStrictEqual } from "node:util";
import type { Log } from "../../shared/ports/log.ts";
import { executionArn, stateMachineArn } from "./arn.ts";
import { Branch } from "./branch.ts";
import type { StateMachineDefinition } from "./definition.ts";
import { type Environment, Execution, type ExecutionIdentity, type Outcome } from "./execution.ts";
import type { ExecutionRow } from "./execution-store.ts";
import { Halted } from "./halt.ts";
import type { Json } from "./json.ts";
import { parseDefinition } from "./load-definition.ts";
import { type Position, revivePosition } from "./position.ts";
import { runBranch } from "./run-branch.ts";
import { ServiceError } from "./service-error.ts";
import { StatesError } from "./states-error.ts";

export interface StateMachine {
  readonly name: string;
  readonly digest: string;
  readonly definition: StateMachineDefinition;
}

export interface ClosedExecution {
  readonly executionArn: string;
  readonly stateMachine: string;
  readonly name: string;
  readonly input: Json;
  readonly status: Outcome["status"];
  readonly error: string | null;
}

export interface StartedExecution {
  readonly arn: string;
  readonly startDate: Date;
}

export class Executions {
  readonly #environment: Environment;
  readonly #machines: ReadonlyMap<string, StateMachine>;
  readonly #log: Log;
  readonly #onClosed: (execution: ClosedExecution) => void;
  #draining = false;
  readonly #live = new Map<string, { readonly execution: Execution; readonly ended: Promise<void> }>();

  constructor(
    environment: Environment,
    machines: ReadonlyMap<string, StateMachine>,
    log: Log,
    onClosed: (execution: ClosedExecution) => void,
  ) {
    this.#environment = environment;
    this.#machines = machines;
    this.#log = log;
    this.#onClosed = onClosed;
  }

  /** Tokens are closed here and open again after the next start: nobody can be told what they are worth. */
  get draining(): boolean {
    return this.#draining;
  }

  /** Starts an execution, or finds the running one of the same name and input. */
  async start(stateMachine: string, name: string, input: string): Promise<StartedExecution> {
    const machine = this.#machines.get(stateMachine);
    if (!machine) {
      throw new ServiceError(
        "StateMachineDoesNotExist",
        `State Machine Does Not Exist: '${stateMachineArn(stateMachine)}'`,
      );
    }
    const arn = executionArn(stateMachine, name);
    const startDate = new Date(this.#environment.clock.now());
    const { store } = this.#environment;
    const inserted = await store.insert({ arn, stateMachine, name, definition: machine.digest, input, startDate });
    if (inserted) {
      const identity = identify({ arn, name, state_machine: stateMachine, input, start_date: startDate });
      // While draining the row is enough: the next start finds it.
      if (!this.#draining) this.#drive(new Execution(identity, machine.definition, this.#environment));
      return { arn, startDate };
    }
    const taken = await store.find(arn);
    if (taken?.status === "RUNNING" && isDeepStrictEqual(JSON.parse(taken.input), JSON.parse(input))) {
      return { arn, startDate: taken.start_date };
    }
    throw new ServiceError("ExecutionAlreadyExists", `Execution Already Exists: '${arn}'`);
  }

  /** Aborts a running execution; a closed one answers with the date of its end. */
  async abort(arn: string, error: string | null, cause: string | null): Promise<Date> {
    const live = this.#live.get(arn);
    if (this.#draining) throw new ServiceError("ServiceUnavailable", "The service is stopping.", 503);
    if (live) {
      const stopDate = await this.#close(live.execution, { status: "ABORTED", error, cause }).catch(ignoreHalted);
      if (stopDate) return stopDate;
    }
    const row = await this.describe(arn);
    return row.stop_date ?? new Date(this.#environment.clock.now());
  }

  async describe(arn: string): Promise<ExecutionRow> {
    const row = await this.#environment.store.find(arn);
    if (!row) throw new ServiceError("ExecutionDoesNotExist", `Execution Does Not Exist: '${arn}'`);
    return row;
  }

  /** Goes on with every execution that an earlier process left running. Returns with all their tokens open. */
  async resume(): Promise<void> {
    const { store } = this.#environment;
    const rows = await store.claimRunning();
    const definitions = new Map([...this.#machines.values()].map(({ digest, definition }) => [digest, definition]));
    for (const { definition: digest } of rows) {
      if (definitions.has(digest)) continue;
      const text = await store.findDefinition(digest);
      if (text !== null) definitions.set(digest, parseDefinition(text));
    }
    for (const row of rows) {
      const definition = definitions.get(row.definition);
      if (definition) this.#drive(this.#revive(row, definition));
      else this.#log.error("the definition of a running execution is lost", { execution: row.arn });
    }
    if (rows.length > 0) this.#log.info("executions resumed", { count: rows.length });
  }

  /** Lets running functions finish and their transitions be written, for at most so long; leaves everything else. */
  async drain(graceMilliseconds: number): Promise<void> {
    this.#draining = true;
    const all = [...this.#live.values()];
    for (const { execution } of all) execution.halt.drain();
    const ended = Promise.all(all.map((live) => live.ended));
    let cancel: () => void = () => undefined;
    const { clock } = this.#environment;
    const grace = new Promise<void>((resolve) => {
      cancel = clock.at(clock.now() + graceMilliseconds, resolve);
    });
    await Promise.race([ended, grace]);
    cancel();
    this.#environment.store.stop();
    for (const { execution } of all) execution.halt.halt();
    await ended;
  }

  #revive(row: ExecutionRow, machine: StateMachineDefinition): Execution {
    if (row.position === null) return new Execution(identify(row), machine, this.#environment);
    const execution = new Execution(identify(row), machine, this.#environment, {
      historyEvents: row.history_events,
      statesEntered: row.states_entered,
    });
    execution.root = rootBranch(execution, revivePosition(JSON.parse(row.position) as Position));
    return execution;
  }

  #drive(execution: Execution): void {
    const { arn } = execution.identity;
    const ended = this.#run(execution).finally(() => this.#live.delete(arn));
    this.#live.set(arn, { execution, ended });
  }

  /** Never rejects. */
  async #run(execution: Execution): Promise<void> {
    try {
      const output = await runToEnd(execution);
      if (output !== null) await this.#close(execution, output);
    } catch (failure) {
      if (failure instanceof Halted) return;
      // Neither the message nor the stack is logged: they may quote data.
      const name = failure instanceof Error ? failure.name : typeof failure;
      this.#log.error("an execution could not be closed", { execution: execution.identity.arn, error: name });
    }
  }

  async #close(execution: Execution, outcome: Outcome): Promise<Date> {
    if (execution.closing) return execution.close(outcome);
    const stopDate = await execution.close(outcome);
    const { arn, name, stateMachine, input } = execution.identity;
    const { historyEvents, statesEntered } = execution.counters;
    const error = outcome.status === "SUCCEEDED" ? null : outcome.error;
    const fields = { execution: arn, status: outcome.status, error, historyEvents, statesEntered };
    if (outcome.status === "FAILED") this.#log.warn("execution failed", fields);
    else this.#log.debug("execution ended", fields);
    this.#onClosed({ executionArn: arn, stateMachine, name, input, status: outcome.status, error });
    return stopDate;
  }
}

function ignoreHalted(failure: unknown): null {
  if (failure instanceof Halted) return null;
  throw failure;
}

/** Null when the execution was halted and is not to be closed from here. */
async function runToEnd(execution: Execution): Promise<Outcome | null> {
  try {
    if (execution.root === null) {
      const { machine, identity } = execution;
      execution.root = rootBranch(execution, execution.enterState(machine.startAt, identity.input, {}));
    }
    return { status: "SUCCEEDED", output: JSON.stringify(await runBranch(execution, execution.root)) };
  } catch (failure) {
    if (failure instanceof Halted) return null;
    if (!(failure instanceof StatesError)) {
      const name = failure instanceof Error ? failure.name : typeof failure;
      return { status: "FAILED", error: "States.Runtime", cause: `The interpreter failed with ${name}.` };
    }
    return {
      status: "FAILED",
      error: failure.errorName,
      cause: failure.confidential ? null : failure.causeText,
    };
  }
}

function rootBranch(execution: Execution, position: Position): Branch {
  return new Branch({ machine: execution.machine, halt: execution.halt, outerVariables: {}, mapItem: null }, position);
}

function identify(
  row: Pick<ExecutionRow, "arn" | "name" | "state_machine" | "input" | "start_date">,
): ExecutionIdentity {
  return {
    arn: row.arn,
    name: row.name,
    stateMachine: row.state_machine,
    stateMachineArn: stateMachineArn(row.state_machine),
    input: JSON.parse(row.input) as Json,
    startDate: row.start_date,
  };
}
