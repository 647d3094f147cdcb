/** The rows of `schema.sql`. Every change of an execution names its owner and its state, so that a late one has no effect. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import type { Log } from "../../shared/ports/log.ts";
import type { Counters, Outcome } from "./execution.ts";
import { Halted } from "./halt.ts";

const SCHEMA = new URL("./schema.sql", import.meta.url);
const TOKEN_KEY_BYTES = 32;
const LONGEST_PAUSE_MILLISECONDS = 2_000;

type ExecutionStatus = "RUNNING" | "SUCCEEDED" | "FAILED" | "ABORTED";

export interface ExecutionRow {
  readonly arn: string;
  readonly state_machine: string;
  readonly name: string;
  readonly definition: string;
  readonly status: ExecutionStatus;
  readonly input: string;
  readonly position: string | null;
  readonly output: string | null;
  readonly error: string | null;
  readonly cause: string | null;
  readonly history_events: number;
  readonly states_entered: number;
  readonly start_date: Date;
  readonly stop_date: Date | null;
}

export interface NewExecution {
  readonly arn: string;
  readonly stateMachine: string;
  readonly name: string;
  readonly definition: string;
  readonly input: string;
  readonly startDate: Date;
}

export class ExecutionStore {
  readonly #pool: pg.Pool;
  readonly #owner: string;
  readonly #log: Log;
  #closed = false;

  constructor(pool: pg.Pool, owner: string, log: Log) {
    this.#pool = pool;
    this.#owner = owner;
    this.#log = log;
  }

  /** Makes the tables where they are missing, and returns the key that signs task tokens. */
  async prepare(): Promise<Buffer> {
    const schema = await readFile(SCHEMA, "utf8");
    const client = await this.#pool.connect();
    try {
      await client.query("begin");
      // Two processes that start together would trip over each other's `create if not exists`.
      await client.query("select pg_advisory_xact_lock(hashtextextended('stepfunctions.schema', 0))");
      await client.query(schema);
      await client.query("insert into stepfunctions.token_key (key) values ($1) on conflict do nothing", [
        randomBytes(TOKEN_KEY_BYTES),
      ]);
      await client.query("commit");
      const { rows } = await client.query<{ key: Buffer }>("select key from stepfunctions.token_key");
      const [row] = rows;
      if (!row) throw new Error("stepfunctions.token_key is empty");
      return row.key;
    } catch (error) {
      await client.query("rollback").catch(() => undefined);
      throw error;
    } finally {
      client.release();
    }
  }

  async saveDefinition(digest: string, definition: string): Promise<void> {
    await this.#pool.query(
      "insert into stepfunctions.definitions (digest, definition) values ($1, $2) on conflict do nothing",
      [digest, definition],
    );
  }

  async findDefinition(digest: string): Promise<string | null> {
    const { rows } = await this.#pool.query<{ definition: string }>(
      "select definition from stepfunctions.definitions where digest = $1",
      [digest],
    );
    return rows[0]?.definition ?? null;
  }

  /** Takes every running execution over, from whichever process had it. */
  async claimRunning(): Promise<ExecutionRow[]> {
    const { rows } = await this.#pool.query<ExecutionRow>(
      "update stepfunctions.executions set owner = $1 where status = 'RUNNING' returning *",
      [this.#owner],
    );
    return rows;
  }

  /** False when the name is taken. */
  async insert(execution: NewExecution): Promise<boolean> {
    const { arn, stateMachine, name, definition, input, startDate } = execution;
    const { rowCount } = await this.#pool.query(
      `insert into stepfunctions.executions
         (arn, state_machine, name, definition, owner, status, input, history_events, states_entered, start_date)
       values ($1, $2, $3, $4, $5, 'RUNNING', $6, 1, 0, $7)
       on conflict (arn) do nothing`,
      [arn, stateMachine, name, definition, this.#owner, input, startDate],
    );
    return rowCount === 1;
  }

  async find(arn: string): Promise<ExecutionRow | null> {
    const { rows } = await this.#pool.query<ExecutionRow>("select * from stepfunctions.executions where arn = $1", [
      arn,
    ]);
    return rows[0] ?? null;
  }

  /** False when the execution is another process's by now, or closed. */
  savePosition(arn: string, position: string, counters: Counters): Promise<boolean> {
    return this.#persist(
      `update stepfunctions.executions set position = $3, history_events = $4, states_entered = $5
       where arn = $1 and owner = $2 and status = 'RUNNING'`,
      [arn, this.#owner, position, counters.historyEvents, counters.statesEntered],
    );
  }

  close(arn: string, outcome: Outcome, stopDate: Date, counters: Counters): Promise<boolean> {
    const ended = outcome.status === "SUCCEEDED" ? { output: outcome.output, error: null, cause: null } : outcome;
    return this.#persist(
      `update stepfunctions.executions
       set status = $3, output = $4, error = $5, cause = $6, stop_date = $7, history_events = $8, states_entered = $9,
           position = null
       where arn = $1 and owner = $2 and status = 'RUNNING'`,
      [
        arn,
        this.#owner,
        outcome.status,
        "output" in ended ? ended.output : null,
        withoutNul(ended.error),
        withoutNul(ended.cause),
        stopDate,
        counters.historyEvents,
        counters.statesEntered,
      ],
    );
  }

  /** Gives up on writes that keep failing. */
  stop(): void {
    this.#closed = true;
  }

  /** A database that is away for a while delays executions and does not fail them. */
  async #persist(statement: string, parameters: unknown[]): Promise<boolean> {
    for (let pause = 50; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MILLISECONDS)) {
      try {
        const { rowCount } = await this.#pool.query(statement, parameters);
        return rowCount === 1;
      } catch (error) {
        if (this.#closed) throw new Halted();
        const code = error instanceof Error && "code" in error ? String(error.code) : null;
        this.#log.warn("an execution could not be written; trying again", { code });
      }
      await delay(pause);
    }
  }
}

/** PostgreSQL has no NUL in text, and an error's name may come from anywhere. */
function withoutNul(text: string | null): string | null {
  return text?.replaceAll("\0", "") ?? null;
}
