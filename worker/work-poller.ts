import type { BetaSelfHostedWork } from "@anthropic-ai/sdk/resources/beta/environments/work";
import type { Log } from "../shared/ports/log.ts";
import { type ApiClient, errorLabel, isFatal } from "./api-client.ts";
import { backoffMs } from "./backoff.ts";
import { type Wait, wait } from "./wait.ts";

const ERROR_FIRST_MS = 1_000;
const ERROR_MAX_MS = 60_000;
const EARLY_FIRST_MS = 50;
const EARLY_MAX_MS = 3_000;
/** How long an answer may take beyond the time that the server holds the poll. */
const POLL_GRACE_MS = 15_000;

export type ClaimedWork = BetaSelfHostedWork;

export interface WorkPollerOptions {
  /** Holds the environment key. */
  readonly client: ApiClient;
  readonly environmentId: string;
  /** Unique to this worker. */
  readonly workerId: string;
  /** How long the server may hold a poll when there is nothing to do. */
  readonly blockMs: number;
  readonly log: Log;
  /** The server has taken the first poll: the key is good. */
  readonly onReady?: () => void;
  readonly wait?: Wait;
  readonly now?: () => number;
}

/**
 * Claims work items and acknowledges them.
 *
 * The first poll does not block, so that bad credentials show at once. A poll that was held for its time is repeated
 * at once; one that came back empty early (a server that does not hold polls, or one that is going away) is followed
 * by a growing pause. Failed polls back off; a refusal that no repeat can heal is thrown.
 */
export class WorkPoller {
  readonly #options: WorkPollerOptions;
  readonly #wait: Wait;
  readonly #now: () => number;

  constructor(options: WorkPollerOptions) {
    this.#options = options;
    this.#wait = options.wait ?? wait;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Ends when `signal` aborts. */
  async *items(signal: AbortSignal): AsyncGenerator<ClaimedWork, void, undefined> {
    const { log, onReady, blockMs } = this.#options;
    let ready = false;
    let failures = 0;
    let earlyReplies = 0;
    while (!signal.aborted) {
      const since = this.#now();
      let work: ClaimedWork | null;
      try {
        work = await this.#poll(ready, signal);
      } catch (error) {
        if (signal.aborted) return;
        if (isFatal(error)) throw error;
        const pause = backoffMs(failures, ERROR_FIRST_MS, ERROR_MAX_MS);
        failures += 1;
        log.warn("polling failed", { error: errorLabel(error), retryInMs: Math.round(pause) });
        await this.#wait(pause, signal);
        continue;
      }
      failures = 0;
      const first = !ready;
      if (first) {
        ready = true;
        onReady?.();
      }
      if (work !== null) {
        earlyReplies = 0;
        if (await this.#acknowledge(work, signal)) yield work;
      } else if (first || this.#now() - since >= blockMs / 2) {
        earlyReplies = 0;
      } else {
        await this.#wait(backoffMs(earlyReplies, EARLY_FIRST_MS, EARLY_MAX_MS), signal);
        earlyReplies += 1;
      }
    }
  }

  async #poll(block: boolean, signal: AbortSignal): Promise<ClaimedWork | null> {
    const { client, environmentId, workerId, blockMs } = this.#options;
    const reply: ClaimedWork | null | undefined = await client.beta.environments.work.poll(
      environmentId,
      { "Anthropic-Worker-ID": workerId, ...(block && blockMs > 0 ? { block_ms: blockMs } : {}) },
      { signal, maxRetries: 0, timeout: (block ? blockMs : 0) + POLL_GRACE_MS },
    );
    return reply ?? null;
  }

  /** An item that could not be acknowledged goes back to the queue by itself. */
  async #acknowledge(work: ClaimedWork, signal: AbortSignal): Promise<boolean> {
    const { client, environmentId, log } = this.#options;
    try {
      await client.beta.environments.work.ack(work.id, { environment_id: environmentId }, { signal });
      return true;
    } catch (error) {
      if (!signal.aborted) log.warn("could not acknowledge the item", { work: work.id, error: errorLabel(error) });
      return false;
    }
  }
}
