/**
 * Looks into JSON text without rebuilding it: which piece of the text is which value.
 *
 * The text must be valid JSON (callers that read from outside run it through `JSON.parse` first). A scanner with a
 * depth counter rather than a tree: a model can be talked into nesting deep enough to overflow a recursive parser.
 */
import { createScanner } from "jsonc-parser";

/** Where one direct member of an object or array stands in the text. */
export interface JsonMember {
  /** The decoded key; null in an array. */
  readonly key: string | null;
  /** Offsets of the value: `text.slice(start, end)` is its exact text. */
  readonly start: number;
  readonly end: number;
}

/** The direct members of the object or array that `text` holds, in order; none when it holds a scalar. */
export function jsonMembers(text: string): JsonMember[] {
  const scanner = createScanner(text, true);
  const members: JsonMember[] = [];
  let depth = 0;
  let inObject = false;
  let key: string | null = null;
  let start = -1;
  let end = -1;
  const close = () => {
    if (start >= 0) members.push({ key, start, end });
    key = null;
    start = -1;
  };
  for (scanner.scan(); scanner.getTokenOffset() < text.length; scanner.scan()) {
    const offset = scanner.getTokenOffset();
    const first = text[offset];
    if (first === "}" || first === "]") {
      depth -= 1;
      if (depth === 0) break;
    } else if (depth === 1 && first === ",") {
      close();
      continue;
    } else if (depth === 1 && first === ":") {
      continue;
    } else if (depth === 1 && inObject && key === null) {
      key = scanner.getTokenValue();
      continue;
    } else if (depth === 1 && start < 0) {
      start = offset;
    }
    if (first === "{" || first === "[") {
      depth += 1;
      if (depth === 1) inObject = first === "{";
    }
    end = offset + scanner.getTokenLength();
  }
  close();
  return members;
}

/** The exact text of a field's value; the last one when the key is doubled, as `JSON.parse` has it. */
export function jsonField(text: string, key: string): string | undefined {
  const member = jsonMembers(text).findLast((candidate) => candidate.key === key);
  return member && text.slice(member.start, member.end);
}

/** Strict: what `JSON.parse` accepts and holds an object. */
export function isJsonObject(text: string): boolean {
  try {
    JSON.parse(text);
  } catch {
    return false;
  }
  return text.trimStart().startsWith("{");
}
