import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";

/**
 * The outbox: what must be said to Step Functions because a transaction committed.
 *
 * A row is born claimed by its author, who delivers it right after the commit; when its claim expires somebody else
 * does. Every receiver takes doubles.
 *
 * A start is removed by its effect, the first transaction of the segment, so that an execution that was lost on its way
 * is started again. A release is removed when Step Functions has taken it (it is durable there): its effect would be no
 * proof, because a doubled invocation of an earlier state can do the same before the release was ever said.
 */

/** How long an author or a relay may take before somebody else tries. */
const CLAIM_SECONDS = 10;

export interface OutboxRow {
  readonly id: string;
  readonly turnId: string;
  readonly segment: number;
  readonly kind: "start" | "release";
  readonly taskToken: string | null;
  /** Whether an unheard release means that the execution is lost. */
  readonly lostIfStale: boolean;
  /** JSON text: the execution's input, or the released state's output. */
  readonly payload: string;
}

interface OutboxDraft {
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly turnId: string;
  readonly segment: number;
}

async function insert(
  transaction: Transaction,
  draft: OutboxDraft,
  row: Omit<OutboxRow, "id" | "turnId" | "segment">,
): Promise<OutboxRow> {
  const id = newId("outb");
  await transaction.query(
    `insert into outbox (id, workspace_id, session_id, turn_id, segment, kind, task_token, payload, created_at, claimed_until, lost_if_stale)
     values ($1, $2, $3, $4, $5, $6, $7, $8, now(), now() + make_interval(secs => $9), $10)`,
    [
      id,
      draft.workspaceId,
      draft.sessionId,
      draft.turnId,
      draft.segment,
      row.kind,
      row.taskToken,
      row.payload,
      CLAIM_SECONDS,
      row.lostIfStale,
    ],
  );
  return { id, turnId: draft.turnId, segment: draft.segment, ...row };
}

/** Promises to start the segment's execution. */
export function queueStart(transaction: Transaction, draft: OutboxDraft): Promise<OutboxRow> {
  const payload = JSON.stringify({ turnId: draft.turnId, segment: draft.segment });
  return insert(transaction, draft, { kind: "start", taskToken: null, lostIfStale: true, payload });
}

/** Promises to answer the parked state that holds the token. */
export function queueRelease(
  transaction: Transaction,
  draft: OutboxDraft & { readonly taskToken: string; readonly output: object; readonly lostIfStale?: boolean },
): Promise<OutboxRow> {
  return insert(transaction, draft, {
    kind: "release",
    taskToken: draft.taskToken,
    lostIfStale: draft.lostIfStale ?? true,
    payload: JSON.stringify(draft.output),
  });
}

/** The segment runs: what was promised to start it, or an earlier one, has happened. */
export async function acknowledge(
  transaction: Transaction,
  params: { readonly turnId: string; readonly segment: number },
): Promise<void> {
  await transaction.query("delete from outbox where turn_id = $1 and segment <= $2 and kind = 'start'", [
    params.turnId,
    params.segment,
  ]);
}

/** Takes the rows whose claim has expired, oldest first. */
export async function claimDue(database: Transaction, limit: number): Promise<OutboxRow[]> {
  const { rows } = await database.query<{
    id: string;
    turn_id: string;
    segment: number;
    kind: "start" | "release";
    task_token: string | null;
    lost_if_stale: boolean;
    payload: string;
  }>(
    `update outbox set claimed_until = now() + make_interval(secs => $2 * least(power(2, attempts), 30)), attempts = attempts + 1
      where id in (select id from outbox where claimed_until < now() order by claimed_until limit $1 for update skip locked)
      returning id, turn_id, segment, kind, task_token, lost_if_stale, payload`,
    [limit, CLAIM_SECONDS],
  );
  return rows.map((row) => ({
    id: row.id,
    turnId: row.turn_id,
    segment: row.segment,
    kind: row.kind,
    taskToken: row.task_token,
    lostIfStale: row.lost_if_stale,
    payload: row.payload,
  }));
}

/** Drops a row that can have no effect any more; false when it is gone already, because its effect has happened. */
export async function drop(database: Transaction, id: string): Promise<boolean> {
  const { rowCount } = await database.query("delete from outbox where id = $1", [id]);
  return rowCount === 1;
}
