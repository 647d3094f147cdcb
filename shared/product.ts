import type { Database } from "./db/transaction.ts";
import type { LiveChannel } from "./live/live-channel.ts";
import type { StreamPlaces } from "./live/stream-places.ts";
import type { Model } from "./model/model.ts";
import type { Log } from "./ports/log.ts";
import type { Orchestrator } from "./ports/orchestrator.ts";
import type { ToolExecutor } from "./turns/tool-executor.ts";

/** completed: its answer is whole, a refusal or a cut-off one too. failed: it ended with `session.error`, whoever's fault. */
export type TurnOutcome = "completed" | "failed";

/** Everything the product needs from outside. Composed once: by `functions/` on AWS, by `local/` on one machine. */
export interface Product {
  readonly database: Database;
  readonly model: Model;
  readonly live: LiveChannel;
  readonly streamPlaces: StreamPlaces;
  readonly orchestrator: Orchestrator;
  /** Runs tools of owner platform_managed. */
  readonly tools: ToolExecutor;
  readonly log: Log;
  /** Names this process in leases of the operation journal. */
  readonly owner: string;
  /** Of the trace that the present work belongs to; nothing where nobody traces. Published with calls, for whoever runs them. */
  readonly traceId?: () => string | undefined;
  /**
   * Told of a turn's end, after its commit and by whoever ended it: once, or never where the commit's answer was lost.
   * Must not throw. Not told of a turn that people ended before its time (an interrupt, its session's archival or
   * deletion): it has neither succeeded nor failed.
   */
  readonly turnEnded?: (outcome: TurnOutcome) => void;
  /** How long a started call, to the provider or of a tool of ours, is its owner's without a renewal, in seconds. */
  readonly leaseSeconds: number;
}

/** Long enough for a database that is away for a moment; renewed at a third of it. */
export const LEASE_SECONDS = 15;
