import { createHash } from "node:crypto";
import type { Transaction } from "../db/transaction.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";
import { ADAPTER_VERSION, CONTEXT_POLICY_VERSION, estimateTokens } from "./build-request.ts";

/**
 * A context snapshot: the immutable recipe of one provider request. With the entries, which are never removed or
 * reordered, and the pinned runtime's revision it rebuilds the exact bytes, and its digest proves that it did.
 */
export interface SnapshotDraft {
  readonly callId: string;
  readonly turnId: string;
  readonly transcript: readonly TranscriptEntry[];
  readonly body: string;
}

export function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** SHA-256 over the entries' ids, one a line. */
export function entriesDigest(transcript: readonly Pick<TranscriptEntry, "id">[]): Buffer {
  return digest(transcript.map((entry) => entry.id).join("\n"));
}

/** Writes the recipe with the call that it belongs to, in one transaction. */
export async function writeSnapshot(
  transaction: Transaction,
  session: SessionRow,
  draft: SnapshotDraft,
): Promise<void> {
  const bytes = Buffer.byteLength(draft.body);
  const last = draft.transcript.at(-1)?.place ?? { turn: 0, entry: 0 };
  await transaction.query(
    `insert into context_snapshots (call_id, workspace_id, session_id, turn_id, parent_call_id, runtime_revision, through_turn,
                                    through_entry, entry_count, entries_digest, refused_entry_ids, adapter_version,
                                    context_policy_version, token_estimate, request_bytes, request_digest, created_at)
     select $1, $2, $3, $4,
            (select call_id from context_snapshots where session_id = $3 order by created_at desc, call_id desc limit 1),
            $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, clock_timestamp()`,
    [
      draft.callId,
      session.workspaceId,
      session.id,
      draft.turnId,
      session.runtimeRevision,
      last.turn,
      last.entry,
      draft.transcript.length,
      entriesDigest(draft.transcript),
      draft.transcript.filter((entry) => entry.refused).map((entry) => entry.id),
      ADAPTER_VERSION,
      CONTEXT_POLICY_VERSION,
      estimateTokens(bytes),
      bytes,
      digest(draft.body),
    ],
  );
}
