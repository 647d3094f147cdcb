import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../contract/ids.ts";
import type { Healthcheck } from "../contract/work.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import { type EnvironmentRef, getEnvironment } from "../environments/environments.ts";
import type { Product } from "../product.ts";
import type { EndedClaim } from "./end-claim.ts";
import { queueStats } from "./queue-stats.ts";
import { COLUMNS, findWork, type WorkRow } from "./work-row.ts";

/**
 * Health checks: work items without a session. The worker's part is told in `contract/work.ts`.
 *
 * queued → starting → active → stopped, with the outcome finished, failed, lost or withdrawn. Whoever asked waits for
 * the end and withdraws the item when the wait is over, so that no worker is sent after it; should the asker crash, the
 * schedule does.
 */

/** How often the waiting request looks when nothing woke it. */
const LOOK_MS = 250;
/** Longer than any wait. */
const STALE_SECONDS = 60;

/** Queues a health check and waits for its end, at most `waitMs`. The asker's hanging up ends it too. */
export async function runHealthcheck(
  product: Pick<Product, "database" | "live">,
  ref: EnvironmentRef,
  params: { readonly waitMs: number; readonly signal: AbortSignal },
): Promise<Healthcheck> {
  await getEnvironment(product.database, ref);
  const workId = newId("work");
  await product.database.query(
    `insert into work_items (id, workspace_id, environment_id, healthcheck_id, state, created_at)
     values ($1, $2, $3, $4, 'queued', date_trunc('milliseconds', now()))`,
    [workId, ref.workspaceId, ref.environmentId, newId("hchk")],
  );
  void product.live.publish(ref.environmentId, { type: "wake" });
  const deadline = Date.now() + params.waitMs;
  let item = await findWork(product.database, { ...ref, workId });
  while (item.state !== "stopped" && Date.now() < deadline && !params.signal.aborted) {
    await sleep(Math.min(LOOK_MS, Math.max(0, deadline - Date.now())));
    item = await findWork(product.database, { ...ref, workId });
  }
  if (item.state !== "stopped") {
    item = await inTransaction(product.database, async (transaction) => {
      const locked = await findWork(transaction, { ...ref, workId }, { lock: true });
      const withdrawn = { outcome: "withdrawn", failure: null } as const;
      return locked.state === "stopped" ? locked : (await endHealthcheck(transaction, locked, withdrawn)).item;
    });
  }
  const { workers_polling: polling } = await queueStats(product.database, ref);
  return report(item, polling);
}

/** Ends a health check's item; its row is locked by the caller. */
export async function endHealthcheck(
  transaction: Transaction,
  item: WorkRow,
  end: { readonly outcome: NonNullable<WorkRow["outcome"]>; readonly failure: string | null },
): Promise<EndedClaim> {
  const { rows } = await transaction.query<WorkRow>(
    `update work_items set state = 'stopped', outcome = $2, failure = $3, token_digest = null, stopped_at = now(),
            stop_requested_at = coalesce(stop_requested_at, now())
      where id = $1 returning ${COLUMNS}`,
    [item.id, end.outcome, end.failure],
  );
  return { item: rows[0] ?? item, outbox: [], wakeEnvironment: null };
}

/** Withdraws the checks that nobody waits for any more; returns how many. */
export async function withdrawStaleHealthchecks(database: Transaction): Promise<number> {
  const { rowCount } = await database.query(
    `update work_items set state = 'stopped', outcome = 'withdrawn', token_digest = null, stopped_at = now()
      where healthcheck_id is not null and state <> 'stopped' and created_at < now() - make_interval(secs => $1)`,
    [STALE_SECONDS],
  );
  return rowCount ?? 0;
}

/** What an ended item says about the worker that took it, if any did. */
export function report(
  item: Pick<
    WorkRow,
    | "id"
    | "environment_id"
    | "healthcheck_id"
    | "outcome"
    | "failure"
    | "created_at"
    | "acknowledged_at"
    | "started_at"
    | "stopped_at"
  >,
  workersPolling: number | null,
): Healthcheck {
  const launched = item.acknowledged_at !== null;
  const heldLease = item.started_at !== null;
  return {
    type: "healthcheck",
    id: item.healthcheck_id ?? "",
    environment_id: item.environment_id,
    work_id: item.id,
    launched,
    reached_api: heldLease || (launched && (item.outcome === "finished" || item.outcome === "failed")),
    held_lease: heldLease,
    ...verdict(item, { launched, heldLease }),
    workers_polling: workersPolling,
    created_at: item.created_at.toISOString(),
    ended_at: (item.stopped_at ?? item.created_at).toISOString(),
  };
}

function verdict(
  item: Pick<WorkRow, "outcome" | "failure">,
  { launched, heldLease }: { readonly launched: boolean; readonly heldLease: boolean },
): Pick<Healthcheck, "status" | "message"> {
  switch (item.outcome) {
    case "finished":
      return heldLease
        ? { status: "healthy", message: "A worker launched, reached the API and held a lease." }
        : {
            status: "skipped",
            message: "A worker launched and reached the API; it does not know health checks, so no lease was tried.",
          };
    case "failed":
      return { status: "failed", message: `The worker reports: ${item.failure ?? "no reason"}` };
    case "lost":
      return { status: "failed", message: "A worker took the check up and went silent: its lease ran out." };
    default:
      if (!launched) {
        return {
          status: "timed_out",
          message: "No worker took the check up. Is one running, with a key of this environment?",
        };
      }
      return {
        status: "timed_out",
        message: heldLease
          ? "A worker holds a lease, but did not finish in time. Ask again with a longer wait_ms."
          : "A worker took the check up, but what it launched has not reached the API. Look at the worker's log.",
      };
  }
}
