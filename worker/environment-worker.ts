import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Log } from "../shared/ports/log.ts";
import { activate } from "./activation.ts";
import { apiClient, errorLabel } from "./api-client.ts";
import { Lease } from "./lease.ts";
import { OneAtATime } from "./one-at-a-time.ts";
import { PreparationError } from "./preparation-error.ts";
import { problemOf } from "./sandbox/choose-launcher.ts";
import type { Launcher } from "./sandbox/launcher.ts";
import { DEFAULT_LIMITS } from "./sandbox/limits.ts";
import { toolEnvironment } from "./sandbox/tool-environment.ts";
import { type ClaimedWork, WorkPoller } from "./work-poller.ts";
import { sessionsToken } from "./work-secret.ts";

/** Sessions at once: one that is served costs a shell and two open requests. */
export const DEFAULT_CONCURRENCY = 32;

export interface EnvironmentWorkerOptions {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
  /** Each session works in a directory of its own below it. */
  readonly workspaceRoot: string;
  readonly log: Log;
  readonly concurrency?: number;
  readonly maxIdleMs?: number;
  readonly blockMs?: number;
  /** How long a stop may take to deliver the results of running calls. */
  readonly drainMs?: number;
  /** Where tools' programs run; there is no default, since it decides what they can reach. */
  readonly launcher: Launcher;
  /** What one session's folder may hold, in bytes. */
  readonly diskBytes?: number;
  /** Names of variables that tools get besides the usual ones. */
  readonly allowEnv?: readonly string[];
  readonly workerId?: string;
  readonly onReady?: () => void;
}

/** Serves the sessions of one self-hosted environment: polls for work and runs the tools of what it claims. */
export class EnvironmentWorker {
  readonly #options: EnvironmentWorkerOptions;
  /** A session whose lease we lost may come back to us before its old activation is gone. */
  readonly #activations = new OneAtATime();

  constructor(options: EnvironmentWorkerOptions) {
    this.#options = options;
  }

  /** Resolves when `signal` has aborted and all items are given back; rejects when the server refuses the polls. */
  async run(signal: AbortSignal): Promise<void> {
    const { url, environmentId, environmentKey, log, onReady } = this.#options;
    const concurrency = this.#options.concurrency ?? DEFAULT_CONCURRENCY;
    const stop = new AbortController();
    const onAbort = () => stop.abort();
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    const stopped = new Promise<void>((resolve) => stop.signal.addEventListener("abort", () => resolve()));

    const poller = new WorkPoller({
      client: apiClient({ baseURL: url, token: environmentKey }),
      environmentId,
      workerId: this.#options.workerId ?? `${hostname()}-${randomUUID()}`,
      blockMs: this.#options.blockMs ?? 20_000,
      log,
      ...(onReady === undefined ? {} : { onReady }),
    });
    const serving = new Set<Promise<void>>();
    try {
      for await (const work of poller.items(stop.signal)) {
        const task = this.#serve(work, stop.signal).finally(() => serving.delete(task));
        serving.add(task);
        while (serving.size >= concurrency && !stop.signal.aborted) await Promise.race([...serving, stopped]);
      }
    } finally {
      stop.abort();
      signal.removeEventListener("abort", onAbort);
      await Promise.all(serving);
    }
  }

  /** One bad item fails that item, never the worker. */
  async #serve(work: ClaimedWork, stop: AbortSignal): Promise<void> {
    const { log } = this.#options;
    const fields = { work: work.id, session: work.data.id };
    log.info("claimed work", fields);
    try {
      const end = await this.#hold(work, stop);
      log.info("work done", { ...fields, end });
    } catch (error) {
      log.error("work failed", { ...fields, error: errorLabel(error) });
    }
  }

  async #hold(work: ClaimedWork, stop: AbortSignal): Promise<string> {
    const { url, environmentId, environmentKey, log } = this.#options;
    const token = sessionsToken(work.secret);
    if (token === null) log.warn("the item has no token of its own; using the environment key", { work: work.id });
    const client = apiClient({ baseURL: url, token: token ?? environmentKey });
    const lease = new Lease({ client, environmentId, workId: work.id, log });
    try {
      await lease.claim(stop);
      const signal = AbortSignal.any([stop, lease.signal]);
      if (signal.aborted) return lease.end ?? "stopped";
      if (work.data.type === "healthcheck") return await this.#answerHealthcheck(lease);
      if (work.data.type !== "session") return "not a session";
      const end = await this.#activations.run(work.data.id, async () => {
        const session = await client.beta.sessions.retrieve(work.data.id, {}, { signal });
        if (session.status === "terminated") return "session_ended";
        return activate(
          {
            client,
            sessionId: work.data.id,
            lease,
            workspaceRoot: this.#options.workspaceRoot,
            launcher: this.#options.launcher,
            toolEnv: toolEnvironment(process.env, this.#options.allowEnv),
            diskBytes: this.#options.diskBytes ?? DEFAULT_LIMITS.diskBytes,
            maxIdleMs: this.#options.maxIdleMs ?? 60_000,
            drainMs: this.#options.drainMs ?? 10_000,
            log,
          },
          signal,
        );
      });
      return lease.end ?? end;
    } catch (error) {
      if (stop.aborted || lease.signal.aborted) return lease.end ?? "stopped";
      if (!(error instanceof PreparationError)) throw error;
      log.error(error.message, { work: work.id, error: errorLabel(error.cause) });
      await lease.fail(error.message);
      return "failed";
    } finally {
      if (lease.end !== "failed") await lease.release();
    }
  }

  /** Whether tools would run here: what a session is launched in is launched, and the lease is seen to last. */
  async #answerHealthcheck(lease: Lease): Promise<string> {
    const { launcher, log } = this.#options;
    const problem = await problemOf(launcher);
    if (problem === null) {
      await lease.renew();
      return "healthy";
    }
    log.error("tools do not run here", { launcher: launcher.name, why: problem });
    await lease.fail(`Tools do not run on this worker: its ${launcher.name} launcher failed a trial.`);
    return "failed";
  }
}
