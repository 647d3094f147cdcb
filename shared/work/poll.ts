import type { Work } from "../contract/work.ts";
import type { Product } from "../product.ts";
import { claimWork } from "./claims.ts";
import { endLostClaims } from "./lost-claims.ts";
import { notePoll } from "./queue-stats.ts";

/** How often a waiting poll looks when nothing woke it: a lost wake-up, or a lease that ran out, costs this much. */
const LOOK_MS = 1000;

/**
 * Claims an item, waiting for one up to `blockMs`. A worker that hangs up while waiting claims nothing. Each look first
 * ends the claims whose owner is gone, so that what they may have begun is closed before anybody is shown it.
 */
export async function pollWork(
  product: Pick<Product, "database" | "live" | "orchestrator" | "log" | "turnEnded">,
  params: Parameters<typeof claimWork>[1] & { readonly blockMs: number; readonly signal: AbortSignal },
): Promise<Work | null> {
  await notePoll(product.database, params, params.workerId);
  const deadline = Date.now() + params.blockMs;
  let wake: (() => void) | undefined;
  let woken = false;
  const subscription = product.live.subscribe(params.environmentId, () => {
    woken = true;
    wake?.();
  });
  const hungUp = () => wake?.();
  params.signal.addEventListener("abort", hungUp);
  try {
    while (!params.signal.aborted) {
      woken = false;
      await endLostClaims(product, params);
      const work = await claimWork(product.database, params);
      const left = deadline - Date.now();
      if (work !== null || left <= 0) {
        return work;
      }
      if (!woken) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.min(LOOK_MS, left));
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    }
    return null;
  } finally {
    subscription.close();
    params.signal.removeEventListener("abort", hungUp);
  }
}
