import type { TurnRef } from "../../statemachines/turn-payload.ts";
import type { Transaction } from "../db/transaction.ts";
import { lockSession, type SessionRow } from "../sessions/session-row.ts";

/**
 * The life of a turn:
 *
 * running      an execution works on it (or is about to).
 * parked       it waits for people, a worker or the application; an execution may hold a task token.
 * hibernated   it waits without an execution; the answer starts the next segment.
 * backing_off  it waits for the provider.
 * completed, interrupted, exhausted: it has ended; nothing may write to it.
 */
export type TurnState = "running" | "parked" | "hibernated" | "backing_off" | "completed" | "interrupted" | "exhausted";

export interface TurnRow {
  readonly id: string;
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly threadId: string;
  readonly ordinal: number;
  readonly triggerEventId: string;
  readonly segment: number;
  readonly state: TurnState;
  readonly taskToken: string | null;
  readonly retries: number;
  /** Whole seconds until the provider may be asked again; 0 when it may be now. */
  readonly retryInSeconds: number;
  readonly segmentEvents: number;
}

interface Row {
  id: string;
  workspace_id: string;
  session_id: string;
  thread_id: string;
  ordinal: number;
  trigger_event_id: string;
  segment: number;
  state: TurnState;
  task_token: string | null;
  retries: number;
  retry_in_seconds: number;
  segment_events: number;
}

/** A timer may fire a little before the clock of the database has come as far. */
const RETRY_TOLERANCE = "interval '500 milliseconds'";
const COLUMNS = `id, workspace_id, session_id, thread_id, ordinal, trigger_event_id, segment, state, task_token, retries, segment_events,
  case when retry_at > clock_timestamp() + ${RETRY_TOLERANCE}
       then ceil(extract(epoch from retry_at - clock_timestamp()))::int else 0 end as retry_in_seconds`;
const ACTIVE = "('running', 'parked', 'hibernated', 'backing_off')";

function toTurn(row: Row): TurnRow {
  return {
    id: row.id,
    workspaceId: row.workspace_id,
    sessionId: row.session_id,
    threadId: row.thread_id,
    ordinal: row.ordinal,
    triggerEventId: row.trigger_event_id,
    segment: row.segment,
    state: row.state,
    taskToken: row.task_token,
    retries: row.retries,
    retryInSeconds: row.retry_in_seconds,
    segmentEvents: row.segment_events,
  };
}

export function isActive(state: TurnState): boolean {
  return state === "running" || state === "parked" || state === "hibernated" || state === "backing_off";
}

/** A turn whose session's row lock is held. `owned` says whether the asking segment may write. */
export interface LockedTurn {
  readonly session: SessionRow;
  readonly turn: TurnRow;
  readonly owned: boolean;
}

/**
 * Locks the session of the turn and applies the fence: only the current segment of an active turn of a session that is
 * not being deleted may write. A segment that has lost its turn records what it already knows and exits, so a Lambda
 * that runs on after a timeout, or after an interrupt ended the turn, can never publish.
 *
 * Null when the turn does not exist.
 */
export async function lockTurn(transaction: Transaction, ref: TurnRef): Promise<LockedTurn | null> {
  const session = await lockSession(transaction, { turnId: ref.turnId });
  if (session === null) {
    return null;
  }
  // Read after the lock: a joined read would show the turn as it was before the lock was granted.
  const { rows } = await transaction.query<Row>(`select ${COLUMNS} from turns where id = $1`, [ref.turnId]);
  const row = rows[0];
  if (row === undefined) {
    return null;
  }
  const turn = toTurn(row);
  const owned = turn.segment === ref.segment && isActive(turn.state) && session.deletingAt === null;
  return { session, turn, owned };
}

/** Whether the segment is still the turn's own, without a lock: a hint for whoever works on it, never a right to write. */
export async function isCurrent(database: Transaction, ref: TurnRef): Promise<boolean> {
  const { rows } = await database.query<{ current: boolean }>(
    `select t.segment = $2 and t.state in ${ACTIVE} and s.deleting_at is null as current
       from turns t join sessions s on s.id = t.session_id where t.id = $1`,
    [ref.turnId, ref.segment],
  );
  return rows[0]?.current ?? false;
}

/** The thread's active turn; null while the thread is free. */
export async function activeTurn(
  transaction: Transaction,
  params: { readonly threadId: string },
): Promise<TurnRow | null> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from turns where thread_id = $1 and state in ${ACTIVE}`,
    [params.threadId],
  );
  return rows[0] === undefined ? null : toTurn(rows[0]);
}

/** Sets the turn's state and token; the caller holds the session's lock. */
export async function setTurnState(
  transaction: Transaction,
  params: {
    readonly turnId: string;
    readonly state: TurnState;
    readonly taskToken?: string | null;
    readonly retries?: number;
    /** Seconds until the provider may be asked again. */
    readonly retryInSeconds?: number;
  },
): Promise<void> {
  await transaction.query(
    `update turns set state = $2, task_token = $3, retries = coalesce($4, retries),
       retry_at = coalesce(clock_timestamp() + make_interval(secs => $5), retry_at),
       ended_at = case when $2 in ${ACTIVE} then null else now() end
     where id = $1`,
    [params.turnId, params.state, params.taskToken ?? null, params.retries ?? null, params.retryInSeconds ?? null],
  );
}

/** Tells others that somebody works on the turn, without a provider call of the turn's own to show for it. */
export async function markBusy(transaction: Transaction, turnId: string, seconds: number): Promise<void> {
  await transaction.query("update turns set busy_until = clock_timestamp() + make_interval(secs => $2) where id = $1", [
    turnId,
    seconds,
  ]);
}

/** Opens the next segment: the old one's handlers may not write from here on. Returns its number. */
export async function nextSegment(transaction: Transaction, turnId: string): Promise<number> {
  const { rows } = await transaction.query<{ segment: number }>(
    "update turns set segment = segment + 1, segment_events = 0, state = 'running', task_token = null, busy_until = null where id = $1 returning segment",
    [turnId],
  );
  const segment = rows[0]?.segment;
  if (segment === undefined) {
    throw new Error(`Turn ${turnId} vanished while its session was locked.`);
  }
  return segment;
}

/** Counts what the turn's execution may still write into its history. */
export async function addSegmentEvents(transaction: Transaction, turnId: string, events: number): Promise<void> {
  await transaction.query("update turns set segment_events = segment_events + $2 where id = $1", [turnId, events]);
}
