/**
 * Step Functions for the embedded edition: the interpreter, its executions in PostgreSQL, and the API on loopback.
 *
 * created → start → serving → stop → stopped. A start takes over every execution that is still RUNNING; a stop leaves
 * running ones RUNNING for the next start. Between the two, killing the process at any instant loses no execution: the
 * next start goes on from what was written, and invokes again the functions whose answers were not.
 */

import { createHash, randomBytes, randomUUID } from "node:crypto";
import type pg from "pg";
import type { Log } from "../../shared/ports/log.ts";
import { createActions } from "./actions.ts";
import { REGION, stateMachineArn } from "./arn.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { Counters } from "./execution.ts";
import { ExecutionStore } from "./execution-store.ts";
import { type ClosedExecution, Executions, type StateMachine } from "./executions.ts";
import type { Invoke } from "./invoke.ts";
import { parseDefinition, substitute } from "./load-definition.ts";
import { ProtocolServer } from "./server.ts";
import { TaskTokens } from "./task-token.ts";

const DEFAULT_STOP_GRACE_MILLISECONDS = 2_000;

interface StateMachineSource {
  readonly name: string;
  /** Text in the Amazon States Language. */
  readonly definition: string;
  readonly substitutions?: Readonly<Record<string, string>>;
}

export interface StepFunctionsOptions {
  /** See `createStepFunctionsPool`. It stays the caller's: `stop` does not end it. */
  readonly pool: pg.Pool;
  readonly stateMachines: readonly StateMachineSource[];
  readonly invoke: Invoke;
  readonly log: Log;
  /** Who knows it may use the API. Random when absent. */
  readonly accessKeyId?: string;
  /** What EventBridge would tell of an execution that SUCCEEDED, FAILED or was ABORTED by itself or by StopExecution. */
  readonly onExecutionClosed?: (execution: ClosedExecution) => void;
  /** How long `stop` waits for functions under way. */
  readonly stopGraceMilliseconds?: number;
  readonly clock?: Clock;
  /** Jitter; from 0 up to 1. */
  readonly random?: () => number;
}

interface Running {
  readonly executions: Executions;
  readonly server: ProtocolServer;
  readonly endpoint: string;
}

export class StepFunctions {
  readonly #options: StepFunctionsOptions;
  readonly #machines: ReadonlyMap<string, StateMachine>;
  readonly #texts: ReadonlyMap<string, string>;
  readonly region = REGION;
  /** The secret is a form: only the key id is looked at. */
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  #running: Running | null = null;

  /** Throws DefinitionError for a definition it cannot run to the letter. */
  constructor(options: StepFunctionsOptions) {
    this.#options = options;
    const texts = new Map<string, string>();
    const machines = new Map<string, StateMachine>();
    for (const { name, definition, substitutions } of options.stateMachines) {
      const text = substitute(definition, substitutions ?? {});
      const digest = createHash("sha256").update(text).digest("hex");
      texts.set(digest, text);
      machines.set(name, { name, digest, definition: parseDefinition(text) });
    }
    this.#texts = texts;
    this.#machines = machines;
    this.credentials = {
      accessKeyId: options.accessKeyId ?? `AKIA${randomBytes(20).toString("hex").toUpperCase()}`,
      secretAccessKey: randomBytes(20).toString("hex"),
    };
  }

  async start(): Promise<void> {
    if (this.#running) throw new Error("already started");
    const { pool, invoke, log, clock = systemClock, random = Math.random, onExecutionClosed } = this.#options;
    const store = new ExecutionStore(pool, randomUUID(), log);
    const tokens = new TaskTokens(await store.prepare());
    for (const [digest, text] of this.#texts) await store.saveDefinition(digest, text);
    const environment = { clock, invoke, store, tokens, random };
    const executions = new Executions(environment, this.#machines, log, onExecutionClosed ?? (() => undefined));
    const server = new ProtocolServer(createActions(executions, tokens), this.credentials.accessKeyId, log);
    // Executions first: an answer must find the token of a resumed task open.
    await executions.resume();
    this.#running = { executions, server, endpoint: await server.listen() };
  }

  async stop(): Promise<void> {
    const running = this.#running;
    if (!running) return;
    this.#running = null;
    // The functions under way may still want the API, so that it closes last.
    await running.executions.drain(this.#options.stopGraceMilliseconds ?? DEFAULT_STOP_GRACE_MILLISECONDS);
    await running.server.close();
  }

  get endpoint(): string {
    return this.#started.endpoint;
  }

  /** What an unmodified `SFNClient` needs. */
  get clientConfiguration(): {
    readonly endpoint: string;
    readonly region: string;
    readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  } {
    return { endpoint: this.endpoint, region: this.region, credentials: this.credentials };
  }

  stateMachineArn(name: string): string {
    return stateMachineArn(name);
  }

  /** As written last; exact once the execution is closed. */
  async counters(executionArn: string): Promise<Counters> {
    const row = await this.#started.executions.describe(executionArn);
    return { historyEvents: row.history_events, statesEntered: row.states_entered };
  }

  get #started(): Running {
    if (!this.#running) throw new Error("not started");
    return this.#running;
  }
}
