import type { Product } from "../product.ts";
import { withdrawStaleHealthchecks } from "./healthchecks.ts";
import { endLostClaims } from "./lost-claims.ts";
import { forgetPollers } from "./queue-stats.ts";
import { stopQuietWork } from "./stop-quiet.ts";

/** What the queue of work needs on a schedule, where no poll comes by that would do it on the way. */
export async function tendWork(
  product: Pick<Product, "database" | "live" | "orchestrator" | "log" | "turnEnded">,
): Promise<void> {
  await endLostClaims(product);
  await stopQuietWork(product.database);
  await withdrawStaleHealthchecks(product.database);
  await forgetPollers(product.database);
}
