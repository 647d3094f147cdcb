import type { Product } from "../product.ts";

/** How often a running call looks whether it is still wanted; an interrupt reaches it within a second. */
const LOOK_MS = 1000;

/** A started call in the operation journal. Each answers whether it is still its owner's to finish. */
export interface Lease {
  /** For `product.leaseSeconds` from now. */
  renew(): Promise<boolean>;
  /** Without writing. */
  look(): Promise<boolean>;
}

/**
 * Keeps the lease of a running call, and aborts the call when it is no longer ours. A look that fails (a lost connection)
 * is no verdict: the next one decides, and the fence in the database stands. Returns what calls it off.
 */
export function keepLease(
  product: Pick<Product, "leaseSeconds" | "log">,
  lease: Lease,
  running: { readonly id: string; readonly abort: AbortController },
): () => void {
  let looks = 0;
  const renewEvery = Math.max(1, Math.floor(product.leaseSeconds / 3));
  const look = async () => {
    looks += 1;
    try {
      if (!(await (looks % renewEvery === 0 ? lease.renew() : lease.look()))) {
        running.abort.abort();
      }
    } catch (error) {
      product.log.warn("The fence could not be read; the next look decides.", {
        call_id: running.id,
        error: (error as Error).name,
      });
    }
  };
  const timer = setInterval(() => void look(), LOOK_MS);
  return () => clearInterval(timer);
}
