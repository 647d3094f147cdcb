/** RFC 3339 with an upper case T and a zone, which is what Step Functions takes for a Timestamp. */
const RFC_3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/;

/** Milliseconds since the epoch, or null for text that is no timestamp. */
export function parseTimestamp(text: string): number | null {
  const instant = RFC_3339.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(instant) ? null : instant;
}
