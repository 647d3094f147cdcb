/** Server-sent events as bytes. See https://html.spec.whatwg.org/multipage/server-sent-events.html */

const encoder = new TextEncoder();

/**
 * One frame. `data` is JSON text. It is usually one line, but a tool input stands in it as the model wrote it, line
 * breaks and all: each line becomes a `data:` line, and readers join them again. The `event:` name is always written,
 * because official clients drop a frame without one. `id` is the ledger position; previews have none.
 */
export function frame(event: string, data: string, id?: number): Uint8Array {
  if (/[\r\n]/.test(event)) {
    throw new Error(`A line break in the event name ${JSON.stringify(event)} would start a new field.`);
  }
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return encoder.encode(`${id === undefined ? "" : `id: ${id}\n`}event: ${event}\n${lines.join("")}\n`);
}

/** A comment: ignored by clients, seen by every proxy on the way. */
export function comment(text: string): Uint8Array {
  return encoder.encode(`: ${text}\n\n`);
}

/** How long a client should wait before it connects again, in milliseconds. */
export function retryHint(milliseconds: number): Uint8Array {
  return encoder.encode(`retry: ${milliseconds}\n\n`);
}
