/** For the tests of this folder: a Step Functions on a database of its own, driven by the unmodified AWS client. */

import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  SFNClient,
  StartExecutionCommand,
} from "@aws-sdk/client-sfn";
import { afterAll, afterEach, beforeAll } from "vitest";
import type { Log, LogFields } from "../../shared/ports/log.ts";
import { testDatabase } from "../../test/database.ts";
import type { Clock } from "./clock.ts";
import type { Counters } from "./execution.ts";
import type { Json } from "./json.ts";
import { createStepFunctionsPool } from "./pool.ts";
import { definitionOf } from "./sample-states.ts";
import { StepFunctions, type StepFunctionsOptions } from "./step-functions.ts";

export type Functions = Readonly<Record<string, (payload: Json, context: { deadline?: Date }) => unknown>>;

export interface HarnessOptions extends Partial<Omit<StepFunctionsOptions, "invoke">> {
  /** The states of a machine named `machine`; the first is its start. */
  readonly states?: Readonly<Record<string, object>>;
  readonly functions?: Functions;
}

interface Ended extends Counters {
  readonly status: string | undefined;
  readonly output: Json | undefined;
  readonly error: string | undefined;
  readonly cause: string | undefined;
}

export interface Harness {
  readonly stepFunctions: StepFunctions;
  readonly client: SFNClient;
  /** Everything that was logged, as text. */
  readonly logged: string[];
  start(input?: Json, name?: string): Promise<string>;
  /** Waits for the end of an execution. */
  ended(executionArn: string): Promise<Ended>;
  run(input?: Json): Promise<Ended>;
}

/** Call once in a test file. Harnesses are stopped after each test and share one database, emptied between tests. */
export function useHarness(): (options: HarnessOptions) => Promise<Harness> {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let pool: ReturnType<typeof createStepFunctionsPool>;
  const stops: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    database = await testDatabase();
    pool = createStepFunctionsPool(database.connectionString);
  });
  afterEach(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()));
    await pool.query("drop schema if exists stepfunctions cascade");
  });
  afterAll(async () => {
    await pool.end();
    await database.close();
  });
  return async (options) => {
    const { harness, stop } = await openHarness({ pool, ...options });
    stops.push(stop);
    return harness;
  };
}

/** For tests that begin and end a Step Functions themselves. */
export async function openHarness(
  options: HarnessOptions & Pick<StepFunctionsOptions, "pool">,
): Promise<{ harness: Harness; stop: () => Promise<void> }> {
  const { states, functions = {}, ...given } = options;
  const logged: string[] = [];
  const closed = new Set<string>();
  let changed = Promise.withResolvers<void>();
  const stepFunctions = new StepFunctions({
    stateMachines: [{ name: "machine", definition: definitionOf(states ?? {}) }],
    log: recordTo(logged),
    stopGraceMilliseconds: 0,
    ...given,
    async invoke(name, payload, context) {
      const implementation = functions[name];
      if (!implementation) throw new Error(`no function ${name}`);
      return implementation(payload, context);
    },
    onExecutionClosed(execution) {
      closed.add(execution.executionArn);
      changed.resolve();
      changed = Promise.withResolvers();
    },
  });
  await stepFunctions.start();
  const client = new SFNClient({ ...stepFunctions.clientConfiguration, maxAttempts: 1 });

  const start = async (input: Json = {}, name?: string): Promise<string> => {
    const { executionArn } = await client.send(
      new StartExecutionCommand({
        stateMachineArn: stepFunctions.stateMachineArn("machine"),
        input: JSON.stringify(input),
        ...(name === undefined ? {} : { name }),
      }),
    );
    return executionArn ?? "";
  };
  const ended = async (executionArn: string): Promise<Ended> => {
    while (!closed.has(executionArn)) await changed.promise;
    const execution = await client.send(new DescribeExecutionCommand({ executionArn }));
    return { ...summarise(execution), ...(await stepFunctions.counters(executionArn)) };
  };
  return {
    harness: {
      stepFunctions,
      client,
      logged,
      start,
      ended,
      run: async (input) => ended(await start(input)),
    },
    async stop() {
      await stepFunctions.stop();
      client.destroy();
    },
  };
}

function summarise(execution: DescribeExecutionCommandOutput): Omit<Ended, keyof Counters> {
  const { status, output, error, cause } = execution;
  return { status, output: output === undefined ? undefined : (JSON.parse(output) as Json), error, cause };
}

function recordTo(lines: string[]): Log {
  const record = (message: string, fields: LogFields = {}): void => {
    lines.push(`${message} ${JSON.stringify(fields)}`);
  };
  return { debug: record, info: record, warn: record, error: record };
}

/** A clock that stands still until it is told to move. */
export class ManualClock implements Clock {
  #now: number;
  #timers: { readonly instant: number; readonly callback: () => void }[] = [];
  #changed = Promise.withResolvers<void>();

  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  at(instant: number, callback: () => void): () => void {
    const timer = { instant, callback };
    this.#timers.push(timer);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
    if (instant <= this.#now) setImmediate(() => this.#fire());
    return () => {
      this.#timers = this.#timers.filter((candidate) => candidate !== timer);
    };
  }

  /** Waits until something waits for exactly that many milliseconds from now, and lets them pass. */
  async elapse(milliseconds: number): Promise<void> {
    while (!this.#timers.some((timer) => timer.instant === this.#now + milliseconds)) await this.#changed.promise;
    this.advance(milliseconds);
  }

  advance(milliseconds: number): void {
    this.#now += milliseconds;
    this.#fire();
  }

  #fire(): void {
    for (const timer of this.#timers.filter(({ instant }) => instant <= this.#now)) {
      this.#timers = this.#timers.filter((candidate) => candidate !== timer);
      timer.callback();
    }
  }
}
