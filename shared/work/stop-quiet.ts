import type { Transaction } from "../db/transaction.ts";

/** How long a worker stays with a session that has nothing for it. */
const QUIET_SECONDS = 120;

/**
 * Asks the workers of quiet sessions to stop: those that stand idle, or wait only on people. A worker serves few
 * sessions at once, and an approval may take a year. The answer to the approval queues a new item, in its own
 * transaction. Returns how many were asked.
 */
export async function stopQuietWork(database: Transaction): Promise<number> {
  const { rowCount } = await database.query(
    `update work_items w set state = 'stopping', stop_requested_at = now()
       from sessions s
      where w.state = 'active' and s.id = w.session_id and s.status = 'idle'
        and s.last_processed_at < now() - make_interval(secs => $1) and w.started_at < now() - make_interval(secs => $1)
        and not exists (
          select 1 from pending_actions result join tool_steps step on step.id = result.step_id
           where result.session_id = s.id and result.need = 'result' and result.resolved_at is null
             and step.owner = 'client_self_hosted'
             and not exists (
               select 1 from pending_actions confirmation
                where confirmation.session_id = s.id and confirmation.event_id = result.event_id
                  and confirmation.need = 'confirmation' and confirmation.resolved_at is null))`,
    [QUIET_SECONDS],
  );
  return rowCount ?? 0;
}
