import type { Log } from "../shared/ports/log.ts";
import { type ApiClient, errorLabel, isFatal, statusOf } from "./api-client.ts";
import { type Wait, wait } from "./wait.ts";

const MIN_INTERVAL_MS = 1_000;
const FIRST_INTERVAL_MS = 30_000;
const FIRST_TTL_MS = 90_000;
const STOP_TIMEOUT_MS = 10_000;
const NO_HEARTBEAT = "NO_HEARTBEAT";

/**
 * released: we are done. failed: it cannot be done here. stop_requested: the server wants the item stopped. refused: it no longer takes our
 * heartbeats. lost: another owner has the item. assumed_lost: no heartbeat got through for longer than the lease lives.
 */
export type LeaseEnd = "released" | "failed" | "stop_requested" | "refused" | "lost" | "assumed_lost";

export interface LeaseOptions {
  readonly client: ApiClient;
  readonly environmentId: string;
  readonly workId: string;
  readonly log: Log;
  readonly wait?: Wait;
  readonly now?: () => number;
}

/**
 * Our hold on one work item. A heartbeat carries the server's answer to the one before, byte for byte; the first
 * carries NO_HEARTBEAT, which claims a lease that nobody holds. The first reason to end counts.
 */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #wait: Wait;
  readonly #now: () => number;
  readonly #over = new AbortController();
  #end: LeaseEnd | null = null;
  #confirmsStop = true;
  #last = NO_HEARTBEAT;
  #intervalMs = FIRST_INTERVAL_MS;
  #failed = false;
  #ttlMs = FIRST_TTL_MS;
  #lastSuccess: number;
  #keeping: Promise<void> = Promise.resolve();
  #beating: Promise<boolean> = Promise.resolve(true);

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#wait = options.wait ?? wait;
    this.#now = options.now ?? (() => performance.now());
    this.#lastSuccess = this.#now();
  }

  /** Aborts when the item may no longer be worked on. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  get end(): LeaseEnd | null {
    return this.#end;
  }

  /** The item belongs to the queue or to another worker: nothing may be written for it. */
  get lost(): boolean {
    return this.#end === "lost" || this.#end === "assumed_lost";
  }

  get ttlMs(): number {
    return this.#ttlMs;
  }

  /** Resolves when the item is ours, or when it turns out that it will not be: then `signal` has aborted. */
  async claim(stop: AbortSignal): Promise<void> {
    const both = AbortSignal.any([stop, this.#over.signal]);
    while (!(await this.#beat()) && !both.aborted) await this.#wait(this.#pauseMs, both);
    this.#keeping = this.#keep();
  }

  /**
   * A call was begun and the server has no result of it. A confirmed stop says that what is open was not begun, and
   * hands it to the next worker; a lease that runs out has it closed, its effect unknown.
   */
  leaveToRunOut(): void {
    this.#confirmsStop = false;
  }

  /** Ends the heartbeats and confirms the stop, unless the item is no longer ours to stop, or left to run out. */
  async release(): Promise<void> {
    this.#finish("released");
    await this.#keeping;
    const { client, environmentId, workId, log } = this.#options;
    if (this.lost) return;
    if (!this.#confirmsStop) {
      log.warn("a call was begun and its result not accepted; the lease is left to run out", { work: workId });
      return;
    }
    try {
      await client.beta.environments.work.stop(
        workId,
        { environment_id: environmentId, force: true },
        { signal: AbortSignal.timeout(STOP_TIMEOUT_MS) },
      );
    } catch (error) {
      // 409: already stopped.
      if (statusOf(error) !== 409) log.warn("could not stop the item", { work: workId, error: errorLabel(error) });
    }
  }

  /** Ends the heartbeats and gives the item up: what it is for cannot be done here, and its people read why. */
  async fail(message: string): Promise<void> {
    this.#finish("failed");
    await this.#keeping;
    const { client, environmentId, workId, log } = this.#options;
    if (this.lost) return;
    try {
      await client.post(`/v1/environments/${environmentId}/work/${workId}/fail`, {
        body: { message },
        signal: AbortSignal.timeout(STOP_TIMEOUT_MS),
      });
    } catch (error) {
      // 409: already stopped.
      if (statusOf(error) !== 409) log.warn("could not give the item up", { work: workId, error: errorLabel(error) });
    }
  }

  /** A heartbeat out of turn: true while the lease is ours. */
  renew(): Promise<boolean> {
    return this.#beat();
  }

  /** Until the next beat. A lease lives for two intervals: after a failure the next one in its turn would come too late. */
  get #pauseMs(): number {
    return this.#failed ? Math.max(MIN_INTERVAL_MS, this.#intervalMs / 6) : this.#intervalMs;
  }

  async #keep(): Promise<void> {
    while (!this.#over.signal.aborted) {
      await this.#wait(this.#pauseMs, this.#over.signal);
      if (!this.#over.signal.aborted) await this.#beat();
    }
  }

  /** True when the server has extended the lease. */
  #beat(): Promise<boolean> {
    // Each repeats the answer to the one before.
    this.#beating = this.#beating.then(() => this.#beatOnce());
    return this.#beating;
  }

  async #beatOnce(): Promise<boolean> {
    const { client, environmentId, workId, log } = this.#options;
    const fields = { work: workId };
    try {
      const reply = await client.beta.environments.work.heartbeat(
        workId,
        { environment_id: environmentId, expected_last_heartbeat: this.#last },
        // Not the client's timeout, which would be retried: a beat that hangs must leave time for others.
        { signal: AbortSignal.any([this.#over.signal, AbortSignal.timeout(this.#intervalMs / 2)]) },
      );
      this.#failed = false;
      this.#lastSuccess = this.#now();
      this.#last = reply.last_heartbeat;
      if (reply.ttl_seconds > 0) {
        this.#ttlMs = reply.ttl_seconds * 1_000;
        this.#intervalMs = heartbeatIntervalMs(reply.ttl_seconds);
      }
      if (reply.state === "stopping" || reply.state === "stopped" || !reply.lease_extended) {
        log.info("the server asks to stop", { ...fields, state: reply.state });
        this.#finish("stop_requested");
      }
      return reply.lease_extended;
    } catch (error) {
      if (this.#over.signal.aborted) return false;
      this.#failed = true;
      if (statusOf(error) === 412) {
        log.warn("the lease is lost: another owner has the item", fields);
        this.#finish("lost");
      } else if (isFatal(error)) {
        log.error("the heartbeat was refused", { ...fields, error: errorLabel(error) });
        this.#finish("refused");
      } else if (this.#now() - this.#lastSuccess > this.#ttlMs) {
        log.error("the lease is assumed lost: no heartbeat got through", { ...fields, error: errorLabel(error) });
        this.#finish("assumed_lost");
      } else {
        log.warn("a heartbeat failed", { ...fields, error: errorLabel(error) });
      }
      return false;
    }
  }

  #finish(end: LeaseEnd): void {
    this.#end ??= end;
    this.#over.abort();
  }
}

/** Half the lease's life, between one second and thirty. */
export function heartbeatIntervalMs(ttlSeconds: number): number {
  return Math.max(MIN_INTERVAL_MS, Math.min(ttlSeconds * 500, 30_000));
}
