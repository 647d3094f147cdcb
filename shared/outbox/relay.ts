import type { Product } from "../product.ts";
import { claimDue, drop, type OutboxRow } from "./outbox.ts";

type Relay = Pick<Product, "database" | "orchestrator" | "log">;

/** How long a request waits for its own messages to be delivered; the scheduled relay delivers the rest. */
const AFTER_COMMIT_MS = 1000;

/**
 * Delivers the rows that a request's own transaction wrote. Never rejects: the answer to the client is decided by the
 * commit, and an undelivered row is found by `relayDue`.
 */
export async function relayAfterCommit(product: Relay, rows: readonly OutboxRow[]): Promise<void> {
  if (rows.length === 0) {
    return;
  }
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, AFTER_COMMIT_MS);
  });
  await Promise.race([Promise.all(rows.map((row) => deliverQuietly(product, row))), patience]);
  clearTimeout(timer);
}

/** Delivers what a crash or an outage left behind; returns how many rows it took up. */
export async function relayDue(product: Relay, limit = 100): Promise<number> {
  const rows = await claimDue(product.database, limit);
  await Promise.all(rows.map((row) => deliverQuietly(product, row)));
  return rows.length;
}

async function deliverQuietly(product: Relay, row: OutboxRow): Promise<void> {
  try {
    await deliver(product, row);
  } catch (error) {
    product.log.warn("An outbox row was not delivered; it will be tried again.", {
      outbox_id: row.id,
      turn_id: row.turnId,
      kind: row.kind,
      error: error instanceof Error ? error.name : "unknown",
    });
  }
}

async function deliver(product: Relay, row: OutboxRow): Promise<void> {
  if (row.kind === "start") {
    const outcome = await product.orchestrator.start({ name: `${row.turnId}-${row.segment}`, input: row.payload });
    if (outcome === "exists" && !(await isCurrent(product, row))) {
      await drop(product.database, row.id);
    }
    return;
  }
  const outcome = await product.orchestrator.release({ taskToken: row.taskToken ?? "", output: row.payload });
  // An execution that is told to stop writes nothing more, so its row has no other end than this one.
  const stops = (JSON.parse(row.payload) as { next?: string }).next === "stop";
  if (stops || (outcome === "stale" && !(await isCurrent(product, row)))) {
    await drop(product.database, row.id);
  }
}

/** Whether the row's effect is still wanted: its segment is the turn's current one and waits for just this. */
async function isCurrent(product: Relay, row: OutboxRow): Promise<boolean> {
  const { rows } = await product.database.query<{ current: boolean }>(
    `select segment = $2 and state in ('running', 'parked', 'backing_off') and ($3::text is null or task_token = $3) as current
       from turns where id = $1`,
    [row.turnId, row.segment, row.taskToken],
  );
  return rows[0]?.current ?? false;
}
