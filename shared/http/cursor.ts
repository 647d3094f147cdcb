import { createHash } from "node:crypto";
import { InvalidRequest } from "../contract/errors.ts";

/**
 * Opaque page cursors. A cursor is bound to its list and to the filters that it was made under: used with others it is
 * refused, because the page after it would be wrong without anybody noticing.
 */
export function encodeCursor(list: string, filters: unknown, position: unknown): string {
  return Buffer.from(JSON.stringify([binding(list, filters), position])).toString("base64url");
}

export function decodeCursor(list: string, filters: unknown, cursor: string): unknown {
  let decoded: unknown;
  try {
    decoded = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
  } catch {
    decoded = null;
  }
  if (!Array.isArray(decoded) || decoded.length !== 2 || decoded[0] !== binding(list, filters)) {
    throw new InvalidRequest("page: this cursor does not belong to this list with these filters.");
  }
  return decoded[1];
}

function binding(list: string, filters: unknown): string {
  return createHash("sha256")
    .update(JSON.stringify([list, filters]))
    .digest("base64url")
    .slice(0, 16);
}
