import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { type OutboxRow, queueStart } from "../outbox/outbox.ts";
import type { SessionUnit } from "../sessions/session-unit.ts";

export interface Trigger {
  readonly eventId: string;
  readonly threadId: string;
  /** JSON text of the message's content blocks. */
  readonly content: string;
}

/**
 * Creates the turn that answers a trigger, with its first transcript entry, and promises its first execution. The
 * caller holds the session's lock and knows that the thread is free; the partial unique index `turns_one_active`
 * would refuse a second turn.
 */
export async function beginTurn(transaction: Transaction, unit: SessionUnit, trigger: Trigger): Promise<OutboxRow> {
  const { session } = unit;
  const turnId = derivedId("turn", trigger.eventId);
  await transaction.query(
    `with thread as (update threads set turn_count = turn_count + 1 where id = $3 returning turn_count),
          turn as (
            insert into turns (id, workspace_id, session_id, thread_id, ordinal, trigger_event_id, state, created_at)
            select $1, $4, $2, $3, turn_count, $5, 'running', $6 from thread returning id
          )
     insert into transcript_entries (turn_id, ordinal, id, workspace_id, session_id, thread_id, role, content,
                                     provider, model, tool_version, profile_version, created_at)
     select id, 0, $7, $4, $2, $3, 'user', $8, $9, $10, $11, $12, $6 from turn`,
    [
      turnId,
      session.id,
      trigger.threadId,
      session.workspaceId,
      trigger.eventId,
      session.now,
      derivedId("tent", turnId, 0),
      trigger.content,
      session.runtime.provider,
      session.runtime.model,
      session.runtime.toolVersion,
      session.runtime.profileVersion,
    ],
  );
  unit.run(trigger.threadId, turnId);
  return queueStart(transaction, { workspaceId: session.workspaceId, sessionId: session.id, turnId, segment: 1 });
}
