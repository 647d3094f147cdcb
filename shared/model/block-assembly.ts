/**
 * Puts one content block together from its start and its deltas, as text: what the provider wrote is spliced, never
 * decoded and encoded again, so escapes, number forms, key order and unknown fields stay as they came.
 *
 * Which field a delta fills:
 *
 * | delta             | effect on the block                                                                         |
 * |-------------------|---------------------------------------------------------------------------------------------|
 * | text_delta        | `text` is continued                                                                         |
 * | thinking_delta    | `thinking` is continued                                                                     |
 * | signature_delta   | `signature` is continued                                                                    |
 * | citations_delta   | `citation` becomes the next element of `citations`                                          |
 * | input_json_delta  | the decoded pieces, joined, replace `input`                                                 |
 * | compaction_delta  | `content` and `encrypted_content` are final values                                          |
 * | any other         | each field by its kind: a string continues a string, an array's elements continue an array, |
 * |                   | null adds nothing, anything else is the new value                                           |
 *
 * Other fields of a known delta (`estimated_tokens` of a thinking_delta) are progress hints: put into the block they
 * would get it refused when it is sent back.
 */
import { toolInput } from "./content-blocks.ts";
import { jsonField, jsonMembers } from "./json-text.ts";

/** The provider broke the stream's own rules: nothing sound can be assembled. */
export class MalformedStream extends Error {
  override readonly name = "MalformedStream";
}

/** What the deltas have added to one field. */
type Growth =
  | { readonly kind: "string"; readonly pieces: string[] }
  | { readonly kind: "array"; readonly pieces: string[] }
  | { readonly kind: "value"; readonly raw: string };

const CONTINUED_FIELD: Readonly<Record<string, string>> = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "signature",
};

export class BlockAssembly {
  readonly type: string;
  readonly #start: string;
  readonly #growth = new Map<string, Growth>();
  readonly #inputPieces: string[] = [];

  /** `start` is the JSON text of `content_block`. */
  constructor(start: string, type: string) {
    this.#start = start;
    this.type = type;
  }

  /** `delta` is the JSON text of the delta, `type` its type. */
  add(delta: string, type: string): void {
    const continued = CONTINUED_FIELD[type];
    if (continued !== undefined) {
      this.#continueString(continued, jsonField(delta, continued));
    } else if (type === "input_json_delta") {
      this.#inputPieces.push(decodeString(jsonField(delta, "partial_json")));
    } else if (type === "citations_delta") {
      const citation = jsonField(delta, "citation");
      if (citation !== undefined) this.#grow("citations", "array", [citation]);
    } else if (type === "compaction_delta") {
      for (const field of ["content", "encrypted_content"]) this.#setValue(field, jsonField(delta, field));
    } else {
      this.#addUnknown(delta);
    }
  }

  /** The block's text. */
  finish(): string {
    this.#settleInput();
    if (this.#growth.size === 0) return this.#start;
    const pending = new Map(this.#growth);
    const members = jsonMembers(this.#start);
    let text = "";
    let copied = 0;
    for (const [position, { key, start, end }] of members.entries()) {
      const growth = key === null ? undefined : pending.get(key);
      // Of a doubled key the last counts, so that one grows.
      if (key === null || !growth || members.findLastIndex((other) => other.key === key) !== position) continue;
      text += this.#start.slice(copied, start) + grown(this.#start.slice(start, end), growth);
      copied = end;
      pending.delete(key);
    }
    const last = members.at(-1)?.end ?? this.#start.indexOf("{") + 1;
    text += this.#start.slice(copied, last);
    const added = [...pending].map(([key, growth]) => `${JSON.stringify(key)}:${grown(undefined, growth)}`);
    if (added.length > 0) text += (members.length > 0 ? "," : "") + added.join(",");
    return text + this.#start.slice(last);
  }

  #settleInput(): void {
    const written = this.#inputPieces.join("");
    if (written !== "") {
      this.#setValue("input", toolInput(written));
      return;
    }
    // A call without arguments may come as no delta at all; sent back, it needs an object.
    const isCall = this.#inputPieces.length > 0 || this.type.endsWith("tool_use");
    if (isCall && jsonField(this.#start, "input")?.[0] !== "{") this.#setValue("input", "{}");
  }

  #addUnknown(delta: string): void {
    for (const { key, start, end } of jsonMembers(delta)) {
      const raw = delta.slice(start, end);
      if (key === null || key === "type" || raw === "null") continue;
      if (raw[0] === '"') this.#continueString(key, raw);
      else if (raw[0] === "[") this.#grow(key, "array", elements(raw));
      else this.#setValue(key, raw);
    }
  }

  #continueString(field: string, raw: string | undefined): void {
    if (raw === undefined || raw === "null") return;
    if (raw[0] !== '"') throw new MalformedStream(`A delta's ${field} is not a string.`);
    this.#grow(field, "string", [raw.slice(1, -1)]);
  }

  #grow(field: string, kind: "string" | "array", pieces: readonly string[]): void {
    const growth = this.#growth.get(field);
    if (growth?.kind === kind) growth.pieces.push(...pieces);
    else if (growth === undefined) this.#growth.set(field, { kind, pieces: [...pieces] });
    else throw new MalformedStream(`Deltas of different kinds for the field ${field}.`);
  }

  #setValue(field: string, raw: string | undefined): void {
    if (raw !== undefined) this.#growth.set(field, { kind: "value", raw });
  }
}

/** A field's text after its growth. `before` is its text in the block's start; undefined when it had none. */
function grown(before: string | undefined, growth: Growth): string {
  if (growth.kind === "value") return growth.raw;
  const open = growth.kind === "string" ? '"' : "[";
  if (before !== undefined && before !== "null" && before[0] !== open) {
    throw new MalformedStream(`A block's field is not the ${growth.kind} that its delta continues.`);
  }
  const had = before === undefined || before === "null" ? "" : before.slice(1, -1);
  if (growth.kind === "string") return `"${had}${growth.pieces.join("")}"`;
  const elementsBefore = had.trim() === "" ? [] : [had];
  return `[${[...elementsBefore, ...growth.pieces].join(",")}]`;
}

function elements(array: string): string[] {
  return jsonMembers(array).map(({ start, end }) => array.slice(start, end));
}

function decodeString(raw: string | undefined): string {
  if (raw?.[0] !== '"') throw new MalformedStream("An input_json_delta without partial_json.");
  return JSON.parse(raw) as string;
}
