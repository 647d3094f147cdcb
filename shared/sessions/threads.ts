import type { SessionAgent } from "../contract/agents.ts";
import { NotFound } from "../contract/errors.ts";
import type { SessionStatus, Thread } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import { SESSION_COLUMNS, type SessionColumns, type SessionRef, usageAndStats } from "./sessions.ts";

interface Row extends SessionColumns {
  thread_id: string;
  parent_thread_id: string | null;
  thread_status: SessionStatus;
  thread_created_at: Date;
  thread_updated_at: Date;
  thread_archived_at: Date | null;
}

/** A single-agent session has one thread, so the session's usage and agent are the thread's. */
function toThread(row: Row): Thread {
  const { usage, stats } = usageAndStats(row);
  return {
    id: row.thread_id,
    type: "session_thread",
    session_id: row.id,
    parent_thread_id: row.parent_thread_id,
    agent: JSON.parse(row.agent) as SessionAgent,
    status: row.thread_status,
    usage,
    stats: { ...stats, startup_seconds: 0 },
    workflow_run_id: null,
    created_at: row.thread_created_at.toISOString(),
    updated_at: row.thread_updated_at.toISOString(),
    archived_at: row.thread_archived_at?.toISOString() ?? null,
  };
}

export interface ThreadPage extends SessionRef {
  readonly statuses?: readonly SessionStatus[] | undefined;
  readonly after: { readonly createdAt: Date; readonly id: string } | null;
  readonly limit: number;
}

/** The threads of a session, the primary one included, newest first. */
export async function listThreads(database: Transaction, page: ThreadPage): Promise<Thread[]> {
  return (await readThreads(database, page, null)).map(toThread);
}

/** One thread. A foreign id is not found. */
export async function getThread(
  database: Transaction,
  ref: SessionRef & { readonly threadId: string },
): Promise<Thread> {
  const [row] = await readThreads(database, { ...ref, after: null, limit: 1 }, ref.threadId);
  if (row === undefined) {
    throw new NotFound(`There is no thread ${ref.threadId} in session ${ref.sessionId}.`);
  }
  return toThread(row);
}

async function readThreads(database: Transaction, page: ThreadPage, threadId: string | null): Promise<Row[]> {
  const { rows } = await database.query<Row>(
    `select s.*, t.id as thread_id, t.parent_thread_id, t.status as thread_status, t.created_at as thread_created_at,
            t.updated_at as thread_updated_at, t.archived_at as thread_archived_at
       from (select ${SESSION_COLUMNS} from sessions where id = $1 and workspace_id = $2 and deleting_at is null) s
       join threads t on t.session_id = s.id
      where ($3::text is null or t.id = $3) and ($4::text[] is null or t.status = any($4))
        and ($5::timestamptz is null or (t.created_at, t.id) < ($5, $6))
      order by t.created_at desc, t.id desc limit $7`,
    [
      page.sessionId,
      page.workspaceId,
      threadId,
      page.statuses ?? null,
      page.after?.createdAt ?? null,
      page.after?.id ?? null,
      page.limit,
    ],
  );
  return rows;
}
