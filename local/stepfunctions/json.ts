/** A value that JSON can carry. Values are shared between states and never changed in place. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

/** Payload of a task, a state or an execution: 256 KiB of UTF-8, a hard limit of Step Functions. */
export const MAXIMUM_PAYLOAD_BYTES = 262_144;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The name that Step Functions gives to a JSON type in its messages. */
export function jsonType(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

export function fitsPayload(text: string): boolean {
  // A UTF-16 code unit takes at most three bytes, so that short texts need no count.
  return text.length * 3 <= MAXIMUM_PAYLOAD_BYTES || Buffer.byteLength(text) <= MAXIMUM_PAYLOAD_BYTES;
}
