/** Reads the content array of a message: what routing, the journal and the public events need of each block. */
import { isJsonObject, jsonMembers } from "./json-text.ts";

export interface Block {
  readonly index: number;
  /** As the provider named it; an empty string when it named none. */
  readonly type: string;
  /** The block's exact text. */
  readonly raw: string;
  /** The provider's id of a tool use. Never leaves the server. */
  readonly id?: string;
  readonly name?: string;
  /** JSON text of `input`, exact: always an object. */
  readonly inputText?: string;
  /** Set when the model wrote an input that is not a JSON object: what it wrote. The call must not run. */
  readonly brokenInput?: string;
  readonly text?: string;
}

/**
 * An input that is no JSON object (cut off by the token limit, or plainly wrong) is kept as a string under this key,
 * the form that the Messages documentation gives for sending such an input back. Without it the content would be no
 * JSON at all, or would be refused each time the session's history is sent.
 */
const BROKEN_INPUT_KEY = "INVALID_JSON";

export function readBlocks(content: string): Block[] {
  return jsonMembers(content).map((member, index) => readBlock(index, content.slice(member.start, member.end)));
}

/** The `input` of a tool use from the text that the model wrote for it. */
export function toolInput(written: string): string {
  if (isJsonObject(written)) return written.replace(LONE_SURROGATE, escapeCodeUnit);
  return `{"${BROKEN_INPUT_KEY}":${JSON.stringify(written)}}`;
}

// No UTF-8 form: sent or stored, it would silently become U+FFFD. The escape means the same.
const LONE_SURROGATE = /[\ud800-\udfff]/gu;
const escapeCodeUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16)}`;

function readBlock(index: number, raw: string): Block {
  const fields = new Map(jsonMembers(raw).map(({ key, start, end }) => [key, raw.slice(start, end)]));
  const id = stringValue(fields.get("id"));
  const name = stringValue(fields.get("name"));
  const text = stringValue(fields.get("text"));
  const inputText = fields.get("input");
  const brokenInput = inputText === undefined ? undefined : readBrokenInput(inputText);
  return {
    index,
    type: stringValue(fields.get("type")) ?? "",
    raw,
    ...(id !== undefined && { id }),
    ...(name !== undefined && { name }),
    ...(inputText !== undefined && { inputText }),
    ...(brokenInput !== undefined && { brokenInput }),
    ...(text !== undefined && { text }),
  };
}

function readBrokenInput(inputText: string): string | undefined {
  const members = jsonMembers(inputText);
  const [only] = members;
  if (members.length !== 1 || only?.key !== BROKEN_INPUT_KEY) return undefined;
  return stringValue(inputText.slice(only.start, only.end));
}

/** A field that should be a string and is not is treated as absent. */
function stringValue(json: string | undefined): string | undefined {
  if (json?.[0] !== '"') return undefined;
  return JSON.parse(json) as string;
}
