import type { OutboxRow } from "../outbox/outbox.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import type { Product } from "../product.ts";

/** What a transaction that wrote to a session leaves to be said after its commit. */
export interface Aftermath {
  readonly outbox: readonly OutboxRow[];
  /** The environment whose workers must be woken; null when no work was queued. */
  readonly wakeEnvironment: string | null;
  /** The session's turn has failed with it. */
  readonly turnFailed?: boolean;
}

/** After the commit: wakes streams and workers, tells of the turn's end, and delivers the messages to Step Functions. */
export async function announce(
  product: Pick<Product, "database" | "live" | "orchestrator" | "log" | "turnEnded">,
  sessionId: string,
  aftermath: Aftermath,
): Promise<void> {
  void product.live.publish(sessionId, { type: "wake" });
  if (aftermath.wakeEnvironment !== null) {
    void product.live.publish(aftermath.wakeEnvironment, { type: "wake" });
  }
  if (aftermath.turnFailed) {
    product.turnEnded?.("failed");
  }
  await relayAfterCommit(product, aftermath.outbox);
}
