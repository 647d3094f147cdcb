import { relayAfterCommit } from "../outbox/relay.ts";
import type { Product } from "../product.ts";
import type { Admitted } from "../sessions/admission.ts";

/** After the commit of an admission: wakes streams and workers, and delivers the messages to Step Functions. */
export async function announce(product: Product, sessionId: string, admitted: Admitted): Promise<void> {
  void product.live.publish(sessionId, { type: "wake" });
  if (admitted.wakeEnvironment !== null) {
    void product.live.publish(admitted.wakeEnvironment, { type: "wake" });
  }
  await relayAfterCommit(product, admitted.outbox);
}
