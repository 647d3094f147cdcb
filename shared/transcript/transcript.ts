import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import type { TurnRow } from "../turns/turn-row.ts";

export interface EntryPlace {
  readonly turn: number;
  readonly entry: number;
}

/** What the model sees next: exact blocks, in causal order. */
export interface TranscriptEntry {
  readonly id: string;
  /** Its place in the thread: the turn's ordinal, and its own within the turn. */
  readonly place: EntryPlace;
  readonly role: "user" | "assistant";
  /** JSON text of an array of blocks. */
  readonly content: string;
  /** The tool calls of an assistant entry, or the calls that a user entry answers. */
  readonly toolUseIds: readonly string[];
  /** Calls of the provider's own tools of which the entry holds only one half, the call or its result. */
  readonly halfServerCalls: readonly string[];
  /** A message that the provider refused as malformed. */
  readonly refused: boolean;
  /** Who wrote it, or was asked: the kind of provider and the model, as the session had them pinned. */
  readonly provider: string;
  readonly model: string;
}

/**
 * The thread's transcript up to and with a place. Turns are ordered by their ordinal, so a message that was queued
 * during a turn never appears before that turn's answer.
 */
export async function readTranscript(
  transaction: Transaction,
  params: { readonly threadId: string; readonly through: EntryPlace },
): Promise<TranscriptEntry[]> {
  const { rows } = await transaction.query<Row>(`${SELECT} order by t.ordinal, e.ordinal`, [
    params.threadId,
    params.through.turn,
    params.through.entry,
  ]);
  return rows.map(toEntry);
}

/** The same from the newest entry back, in pages of `size`, each newest first: for readers that stop before the end. */
export async function* readTranscriptBackwards(
  database: Transaction,
  params: { readonly threadId: string; readonly through: EntryPlace; readonly size: number },
): AsyncGenerator<TranscriptEntry[]> {
  let through: EntryPlace | undefined = params.through;
  while (through !== undefined) {
    const { rows }: { rows: Row[] } = await database.query(
      `${SELECT} order by t.ordinal desc, e.ordinal desc limit $4`,
      [params.threadId, through.turn, through.entry, params.size],
    );
    if (rows.length > 0) {
      yield rows.map(toEntry);
    }
    const last = rows.at(-1);
    through = last === undefined || rows.length < params.size ? undefined : { turn: last.turn, entry: last.entry - 1 };
  }
}

/** The place of the turn's last entry. */
export async function lastPlace(
  transaction: Transaction,
  turn: { readonly id: string; readonly ordinal: number },
): Promise<EntryPlace> {
  const { rows } = await transaction.query<{ entry: number }>(
    "select max(ordinal) as entry from transcript_entries where turn_id = $1",
    [turn.id],
  );
  return { turn: turn.ordinal, entry: rows[0]?.entry ?? 0 };
}

interface Row {
  id: string;
  turn: number;
  entry: number;
  role: "user" | "assistant";
  content: string;
  tool_use_ids: string[];
  half_server_calls: string[];
  refused: boolean;
  provider: string;
  model: string;
}

const SELECT = `select e.id, t.ordinal as turn, e.ordinal as entry, e.role, e.content, e.tool_use_ids, e.half_server_calls,
       t.trigger_refused and e.ordinal = 0 as refused, e.provider, e.model
  from turns t join transcript_entries e on e.turn_id = t.id
 where t.thread_id = $1 and t.ordinal <= $2 and (t.ordinal < $2 or e.ordinal <= $3)`;

function toEntry(row: Row): TranscriptEntry {
  return {
    id: row.id,
    place: { turn: row.turn, entry: row.entry },
    role: row.role,
    content: row.content,
    toolUseIds: row.tool_use_ids,
    halfServerCalls: row.half_server_calls,
    refused: row.refused,
    provider: row.provider,
    model: row.model,
  };
}

/** Beyond every entry of a turn. */
export const END_OF_TURN = 2_147_483_647;

export interface EntryDraft {
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly toolUseIds?: readonly string[];
  readonly halfServerCalls?: readonly string[];
}

/** Appends to the turn's part of the transcript; the caller holds the session's lock. Returns the entry's id. */
export async function appendEntry(
  transaction: Transaction,
  session: SessionRow,
  turn: TurnRow,
  draft: EntryDraft,
): Promise<string> {
  const id = newId("tent");
  await transaction.query(
    `insert into transcript_entries (turn_id, ordinal, id, workspace_id, session_id, thread_id, role, content, tool_use_ids,
                                     provider, model, tool_version, profile_version, created_at, half_server_calls)
     select $1, coalesce(max(ordinal) + 1, 0), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
       from transcript_entries where turn_id = $1`,
    [
      turn.id,
      id,
      session.workspaceId,
      session.id,
      turn.threadId,
      draft.role,
      draft.content,
      draft.toolUseIds ?? [],
      session.runtime.provider,
      session.runtime.model,
      session.runtime.toolVersion,
      session.runtime.profileVersion,
      session.now,
      draft.halfServerCalls ?? [],
    ],
  );
  return id;
}

/** Remembers that the provider refused the turn's first request; the message itself is never rewritten. */
export async function markTriggerRefused(transaction: Transaction, turnId: string): Promise<void> {
  await transaction.query("update turns set trigger_refused = true where id = $1", [turnId]);
}
