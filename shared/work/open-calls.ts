import type { Transaction } from "../db/transaction.ts";

/** A call that a worker may run: allowed, or asked for and confirmed, and without a result. */
export interface RunnableCall {
  readonly stepId: string;
  /** Since when a worker may run it: its publication, or the person's answer. */
  readonly since: Date;
}

/** The session's calls that a worker may run now. */
export async function runnableCalls(transaction: Transaction, sessionId: string): Promise<RunnableCall[]> {
  const { rows } = await transaction.query<{ step_id: string; since: Date }>(
    `select result.step_id, greatest(result.created_at, confirmation.resolved_at) as since
       from pending_actions result
       join tool_steps step on step.id = result.step_id
       left join pending_actions confirmation on confirmation.session_id = result.session_id
         and confirmation.event_id = result.event_id and confirmation.need = 'confirmation'
      where result.session_id = $1 and result.need = 'result' and result.resolved_at is null
        and step.owner = 'client_self_hosted' and (confirmation.event_id is null or confirmation.resolution = 'allow')`,
    [sessionId],
  );
  return rows.map((row) => ({ stepId: row.step_id, since: row.since }));
}

/** Whether the ledger holds the result of a worker's call after this position. */
export async function answeredSince(transaction: Transaction, sessionId: string, seq: number): Promise<boolean> {
  const { rowCount } = await transaction.query(
    "select 1 from events where session_id = $1 and seq > $2 and type = 'user.tool_result' limit 1",
    [sessionId, seq],
  );
  return rowCount === 1;
}
