import { InvalidRequest } from "../contract/errors.ts";
import type { WorkQueueStats } from "../contract/work.ts";
import type { Transaction } from "../db/transaction.ts";
import type { EnvironmentRef } from "../environments/environments.ts";

/** Who counts as polling. */
const POLLING_SECONDS = 30;
const MAX_WORKER_ID = 255;

/** The queue of an environment in numbers. `workers_polling` is null when no worker has ever given its id. */
export async function queueStats(database: Transaction, ref: EnvironmentRef): Promise<WorkQueueStats> {
  const { rows } = await database.query<{
    depth: number;
    pending: number;
    oldest: Date | null;
    polling: number | null;
  }>(
    `select count(*) filter (where token_digest is null)::int as depth,
            count(*) filter (where token_digest is not null)::int as pending,
            min(created_at) as oldest,
            (select case when count(*) > 0 then
                      count(*) filter (where polled_at > now() - make_interval(secs => $3))::int end
               from environment_pollers where environment_id = $1 and workspace_id = $2) as polling
       from work_items where environment_id = $1 and workspace_id = $2 and state = 'queued'`,
    [ref.environmentId, ref.workspaceId, POLLING_SECONDS],
  );
  const row = rows[0];
  return {
    type: "work_queue_stats",
    depth: row?.depth ?? 0,
    pending: row?.pending ?? 0,
    oldest_queued_at: row?.oldest?.toISOString() ?? null,
    workers_polling: row?.polling ?? null,
  };
}

/** The environments where work waits for a worker; what is backed off, or claimed and not acknowledged, included. */
export async function environmentsWithQueuedWork(database: Transaction): Promise<string[]> {
  const { rows } = await database.query<{ environment_id: string }>(
    "select distinct environment_id from work_items where state = 'queued'",
  );
  return rows.map((row) => row.environment_id);
}

/** Remembers that a worker polls: written at most every five seconds for each, however often it does. */
export async function notePoll(database: Transaction, ref: EnvironmentRef, workerId: string | null): Promise<void> {
  if (workerId === null || workerId === "") {
    return;
  }
  if (workerId.length > MAX_WORKER_ID) {
    throw new InvalidRequest(`Anthropic-Worker-ID: has at most ${MAX_WORKER_ID} characters.`);
  }
  await database.query(
    `insert into environment_pollers (environment_id, worker_id, workspace_id, polled_at) values ($1, $2, $3, now())
     on conflict (environment_id, worker_id) do update set polled_at = excluded.polled_at
       where environment_pollers.polled_at < now() - interval '5 seconds'`,
    [ref.environmentId, workerId, ref.workspaceId],
  );
}

/** Forgets workers that have not polled for a day; returns how many. */
export async function forgetPollers(database: Transaction): Promise<number> {
  const { rowCount } = await database.query(
    "delete from environment_pollers where polled_at < now() - interval '1 day'",
  );
  return rowCount ?? 0;
}
