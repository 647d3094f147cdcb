import type { Database, Transaction } from "../db/transaction.ts";
import { inTransaction } from "../db/transaction.ts";

/**
 * The end of a deleted session. The deletion itself fenced it: nothing writes any more, its work and its turn are over,
 * its streams have been told. What is left are records, removed in two steps, each one transaction, each found again by
 * the next run if a crash comes between:
 *
 * 1. soon after: what was said (events, transcript, calls' inputs and results, title, metadata, the pinned agent);
 * 2. after the audit window: the journal of what was done, and the session's row. A tombstone keeps the id.
 *
 * Agents, environments and everything else that lives on its own is not touched.
 */
export interface PurgePolicy {
  /** Streams attached elsewhere need a moment to say that the session is gone. */
  readonly contentAfterSeconds: number;
  readonly journalAfterDays: number;
}

export const DEFAULT_PURGE: PurgePolicy = { contentAfterSeconds: 30, journalAfterDays: 30 };

/** Sessions that one run takes up in each step. */
const BATCH = 20;

/** Purges what is due; returns how many sessions lost their content and how many are gone. */
export async function purgeDeleted(
  database: Database,
  policy: PurgePolicy,
): Promise<{ content: number; gone: number }> {
  const content = await eachDue(
    database,
    `select id from sessions where deleting_at < now() - make_interval(secs => $1) and agent <> '{}' order by deleting_at limit $2`,
    [policy.contentAfterSeconds, BATCH],
    purgeContent,
  );
  const gone = await eachDue(
    database,
    `select id from sessions where deleting_at < now() - make_interval(days => $1) and agent = '{}' order by deleting_at limit $2`,
    [policy.journalAfterDays, BATCH],
    purgeJournal,
  );
  return { content, gone };
}

async function eachDue(
  database: Database,
  due: string,
  values: readonly unknown[],
  purge: (transaction: Transaction, sessionId: string) => Promise<void>,
): Promise<number> {
  const { rows } = await database.query<{ id: string }>(due, values);
  for (const { id } of rows) {
    await inTransaction(database, async (transaction) => {
      await transaction.query("select 1 from sessions where id = $1 for update", [id]);
      await purge(transaction, id);
    });
  }
  return rows.length;
}

async function purgeContent(transaction: Transaction, sessionId: string): Promise<void> {
  await run(transaction, sessionId, [
    "delete from outbox where session_id = $1",
    "delete from pending_actions where session_id = $1",
    "delete from work_items where session_id = $1",
    "delete from events where session_id = $1",
    "delete from transcript_entries where session_id = $1",
    "delete from session_runtimes where session_id = $1",
    // Not the keys: a repeat must not make anew what was made and deleted.
    "update idempotency_keys set response = null where session_id = $1",
    "update tool_steps set input = '{}', result = null, provenance = null where session_id = $1",
    "update rounds set stop_details = null where session_id = $1",
    "update sessions set title = null, metadata = '{}', agent = '{}', runtime = '{}' where id = $1",
  ]);
}

async function purgeJournal(transaction: Transaction, sessionId: string): Promise<void> {
  await run(transaction, sessionId, [
    "delete from context_snapshots where session_id = $1",
    "delete from permission_evaluations where session_id = $1",
    "delete from tool_steps where session_id = $1",
    "delete from provider_calls where session_id = $1",
    "delete from rounds where session_id = $1",
    "delete from turns where session_id = $1",
    "delete from threads where session_id = $1",
    `insert into session_tombstones (session_id, workspace_id, deleted_at)
     select id, workspace_id, deleting_at from sessions where id = $1 on conflict do nothing`,
    "delete from sessions where id = $1",
  ]);
}

async function run(transaction: Transaction, sessionId: string, statements: readonly string[]): Promise<void> {
  for (const statement of statements) {
    await transaction.query(statement, [sessionId]);
  }
}
