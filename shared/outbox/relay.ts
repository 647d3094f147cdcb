import { inTransaction } from "../db/transaction.ts";
import { isBusy } from "../journal/provider-calls.ts";
import type { Product } from "../product.ts";
import { takeOver } from "../turns/take-over.ts";
import { lockTurn } from "../turns/turn-row.ts";
import { claimDue, drop, type OutboxRow } from "./outbox.ts";

type Relay = Pick<Product, "database" | "orchestrator" | "log" | "turnEnded">;

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
    if (outcome === "exists") {
      await judgeLost(product, row);
    }
    return;
  }
  const outcome = await product.orchestrator.release({ taskToken: row.taskToken ?? "", output: row.payload });
  const stops = (JSON.parse(row.payload) as { next?: string }).next === "stop";
  if (outcome === "released" || stops || !row.lostIfStale) {
    await drop(product.database, row.id);
  } else {
    await judgeLost(product, row);
  }
}

/**
 * Nobody heard: the execution of that name is closed, or nothing waits on that token. The journal decides what that
 * means. Where the row is still there (its effect has not happened) and its turn still runs in that very segment, the
 * execution is lost, and the next segment takes over; the old one, should it live after all, is fenced. Anything else
 * means that the effect has happened, or is no longer wanted.
 */
async function judgeLost(product: Relay, row: OutboxRow): Promise<void> {
  const taken = await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, { turnId: row.turnId, segment: row.segment });
    const dropped = await drop(transaction, row.id);
    if (!dropped || locked?.turn.state !== "running") {
      return null;
    }
    // Where somebody works on the turn the release was heard, only its answer was lost.
    return (await isBusy(transaction, row.turnId)) ? null : takeOver(transaction, locked, product.log);
  });
  if (taken?.turnFailed) {
    product.turnEnded?.("failed");
  }
  for (const next of taken?.outbox ?? []) {
    await deliver(product, next);
  }
}
