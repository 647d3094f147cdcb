import type { LogFields } from "../ports/log.ts";
import type { Product } from "../product.ts";

/** How often running work looks whether it is still wanted; an interrupt reaches it within a second. */
const LOOK_MS = 1000;

/** What running work stands on. Each answers whether its result can still count. */
export interface Fence {
  /** Without writing. */
  look(): Promise<boolean>;
  /** Of a started call in the operation journal: keeps its lease for `product.leaseSeconds` from now. */
  renew?(): Promise<boolean>;
}

/**
 * Looks every second whether the work is still ours, keeps its lease on the way, and aborts it when it is not. A look
 * that fails (a lost connection) is no verdict: the next one decides, and the fence in the database stands. Returns what
 * calls it off.
 */
export function watchFence(
  product: Pick<Product, "leaseSeconds" | "log">,
  fence: Fence,
  running: { readonly named: LogFields; readonly abort: AbortController },
): () => void {
  let looks = 0;
  const renewEvery = Math.max(1, Math.floor(product.leaseSeconds / 3));
  const look = async () => {
    looks += 1;
    try {
      const ours = fence.renew && looks % renewEvery === 0 ? fence.renew() : fence.look();
      if (!(await ours)) {
        running.abort.abort();
      }
    } catch (error) {
      product.log.warn("The fence could not be read; the next look decides.", {
        ...running.named,
        error: (error as Error).name,
      });
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return () => clearInterval(timer);
}
