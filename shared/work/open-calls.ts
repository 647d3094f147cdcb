import type { Transaction } from "../db/transaction.ts";

/** Whether a worker's call of the session waits for its result: then there must always be a live item. */
export async function hasOpenWorkerCalls(transaction: Transaction, sessionId: string): Promise<boolean> {
  const { rowCount } = await transaction.query(
    `select 1 from pending_actions p join tool_steps s on s.id = p.step_id
      where p.session_id = $1 and p.resolved_at is null and s.owner = 'client_self_hosted' limit 1`,
    [sessionId],
  );
  return rowCount === 1;
}
