import { createHash } from "node:crypto";

/** A row of the ledger. `payload` is JSON text of an object without id, type and processed_at. */
export interface LedgerEvent {
  readonly sessionId: string;
  readonly seq: number;
  readonly id: string;
  readonly threadId: string;
  readonly type: string;
  readonly payload: string;
  readonly receivedAt: Date;
  readonly processedAt: Date | null;
}

/**
 * The event as clients see it, as JSON text. The payload is spliced, not parsed: a tool input written by a model may
 * hold numbers that JavaScript cannot.
 */
export function publicEvent(event: Pick<LedgerEvent, "id" | "type" | "payload" | "processedAt">): string {
  const fields = event.payload.slice(1, -1);
  const processedAt = event.processedAt === null ? "null" : `"${event.processedAt.toISOString()}"`;
  return `{"id":"${event.id}","type":"${event.type}",${fields === "" ? "" : `${fields},`}"processed_at":${processedAt}}`;
}

/** The hash before the first event of a session. */
export function genesisHash(sessionId: string): Buffer {
  return createHash("sha256").update(sessionId).digest();
}

/**
 * The hash of an event: SHA-256 over the previous hash and the JSON array
 * `[session id, seq, id, thread id, type, payload, received_at]`. `processed_at` is left out: it is stamped later.
 */
export function eventHash(previous: Uint8Array, event: Omit<LedgerEvent, "processedAt">): Buffer {
  return createHash("sha256")
    .update(previous)
    .update(
      JSON.stringify([
        event.sessionId,
        event.seq,
        event.id,
        event.threadId,
        event.type,
        event.payload,
        event.receivedAt.toISOString(),
      ]),
    )
    .digest();
}

/** JSON text of an object whose `raw` members are JSON text already and go in unchanged. */
export function splice(fields: Readonly<Record<string, unknown>>, raw: Readonly<Record<string, string>> = {}): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    const text = JSON.stringify(value);
    if (text !== undefined) {
      parts.push(`${JSON.stringify(name)}:${text}`);
    }
  }
  for (const [name, text] of Object.entries(raw)) {
    parts.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${parts.join(",")}}`;
}
