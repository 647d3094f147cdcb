import { inTransaction, type Transaction } from "../db/transaction.ts";
import type { Product } from "../product.ts";
import { announce } from "../sessions/announce.ts";
import { lockSession } from "../sessions/session-row.ts";
import { type EndedClaim, endClaim } from "./end-claim.ts";
import { endHealthcheck } from "./healthchecks.ts";
import { COLUMNS, type WorkRow } from "./work-row.ts";

/**
 * Leases that ran out. A lease is judged when somebody polls its environment and, where nobody does, by the schedule:
 * each in a transaction of its own that looks again under the session's lock, so that any number may judge at once.
 */

const LOST = "The worker lost its lease while this call was open; whether it took effect is unknown.";
/** Claims that one look takes up. */
const BATCH = 50;
const ENDED = "state in ('starting', 'active', 'stopping') and lease_expires_at < now()";

/** Ends the claims whose lease has run out, of one environment or of all; returns how many. */
export async function endLostClaims(
  product: Pick<Product, "database" | "live" | "orchestrator" | "log" | "turnEnded">,
  scope: { readonly environmentId: string } | null = null,
): Promise<number> {
  const { rows } = await product.database.query<{ id: string; session_id: string | null }>(
    `select id, session_id from work_items where ${ENDED} and ($1::text is null or environment_id = $1)
      order by lease_expires_at limit ${BATCH}`,
    [scope?.environmentId ?? null],
  );
  let ended = 0;
  for (const { id, session_id: sessionId } of rows) {
    try {
      const claim = await inTransaction(product.database, (transaction) => endLost(transaction, id, sessionId));
      if (claim !== null) {
        ended += 1;
        product.log.info("A worker's lease ran out.", { work_id: id, session_id: sessionId });
        await announce(product, sessionId ?? claim.item.environment_id, claim);
      }
    } catch (error) {
      // The item stays as it is, out of everybody's reach, until the next look.
      product.log.warn("A lost lease was not ended; it will be tried again.", {
        work_id: id,
        error: error instanceof Error ? error.name : "unknown",
      });
    }
  }
  return ended;
}

async function endLost(transaction: Transaction, id: string, sessionId: string | null): Promise<EndedClaim | null> {
  const session = sessionId === null ? null : await lockSession(transaction, { sessionId });
  const { rows } = await transaction.query<WorkRow>(
    `select ${COLUMNS} from work_items where id = $1 and ${ENDED} for update`,
    [id],
  );
  const item = rows[0];
  if (item === undefined) {
    return null;
  }
  if (session === null) {
    return endHealthcheck(transaction, item, { outcome: "lost", failure: null });
  }
  return endClaim(transaction, session, item, {
    to: item.state === "stopping" ? "stopped" : "queued",
    abandoned: { until: item.lease_expires_at, why: LOST },
  });
}
