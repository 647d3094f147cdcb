import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { SessionRow } from "../sessions/session-row.ts";

/** Whether any of the session's tools runs on a worker. */
export function usesWorker(session: SessionRow): boolean {
  return session.runtime.tools.some((tool) => tool.owner === "client_self_hosted");
}

/**
 * Makes sure that a worker is, or will be, attached to the session: queues a work item unless one is queued, starting
 * or active. Written in the transaction that may need it, so a call is never published without somebody to run it. A
 * session that has ended gets none. `backoffSeconds` keeps the item that waits from being claimed at once.
 */
export async function ensureWork(transaction: Transaction, session: SessionRow, backoffSeconds = 0): Promise<boolean> {
  if (!usesWorker(session) || session.archivedAt !== null || session.deletingAt !== null) {
    return false;
  }
  const { rowCount } = await transaction.query(
    `insert into work_items (id, workspace_id, environment_id, session_id, state, created_at)
     values ($1, $2, $3, $4, 'queued', date_trunc('milliseconds', now()))
     on conflict (session_id) where state in ('queued', 'starting', 'active') do nothing`,
    [newId("work"), session.workspaceId, session.environmentId, session.id],
  );
  if (backoffSeconds > 0) {
    await transaction.query(
      `update work_items set not_before = now() + make_interval(secs => $2)
        where session_id = $1 and state = 'queued' and token_digest is null`,
      [session.id, backoffSeconds],
    );
  }
  return rowCount === 1;
}
