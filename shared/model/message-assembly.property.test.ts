/**
 * Whatever a provider writes and however it cuts it up, the content comes out as written. The expectation is joined
 * from the generator's own fragments; nothing of the code under test takes part in it.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MessageAssembly } from "./message-assembly.ts";

interface Example {
  /** `content_block` of the start event. */
  readonly start: string;
  readonly deltas: readonly string[];
  readonly expected: string;
}

/** Fragments of the inside of a JSON string. A lone half of a surrogate pair is legal there, as an escape. */
const stringFragment = fc.oneof(
  fc.constantFrom(
    "\\u0000",
    "\\\\u0000",
    "\\ud800",
    "\\ude00\\ud83d",
    "\\/",
    '\\"',
    "\\\\",
    "\\n",
    "é",
    "😀",
    "\u2028",
  ),
  fc.string({ maxLength: 6 }).map((text) => text.replace(/["\\\p{Cc}]/gu, "_")),
);
const stringInside = fc.array(stringFragment, { maxLength: 5 }).map((parts) => parts.join(""));

const scalar = fc.oneof(
  fc.constantFrom("12345678901234567890", "1.0", "-0", "1E+2", "0.10", "true", "false", "null"),
  stringInside.map((inside) => `"${inside}"`),
);
const space = fc.constantFrom("", "", " ", "  ");
const { value, object } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }).map((items) => `[${items.join(",")}]`),
    tie("object"),
  ),
  object: fc
    .array(fc.tuple(stringInside, space, tie("value"), space), { maxLength: 3 })
    .map((fields) => `{${fields.map(([key, a, item, b]) => `"${key}":${a}${item}${b}`).join(",")}}`),
}));

/** Fields that no version of this code knows; their keys look like integers or words of the future. */
const strangers = fc
  .array(fc.tuple(fc.constantFrom("10", "2", "zeta", "caller", "logprobs"), value), { maxLength: 2 })
  .map((fields) => fields.map(([key, item]) => `,"${key}":${item}`).join(""));

const textBlock: fc.Arbitrary<Example> = fc
  .tuple(strangers, fc.array(stringInside, { maxLength: 5 }), fc.array(object, { maxLength: 3 }), space)
  .map(([extra, pieces, citations, gap]) => ({
    start: `{"type":"text"${extra},"text":${gap}"","citations":[] }`,
    deltas: [
      ...pieces.map((piece) => `{"type":"text_delta","text":"${piece}"}`),
      ...citations.map((citation) => `{"type":"citations_delta","citation":${citation}}`),
    ],
    expected: `{"type":"text"${extra},"text":${gap}"${pieces.join("")}","citations":[${citations.join(",")}] }`,
  }));

const thinkingBlock: fc.Arbitrary<Example> = fc
  .tuple(strangers, fc.array(stringInside, { maxLength: 4 }), stringInside)
  .map(([extra, pieces, signature]) => ({
    start: `{"thinking":"","type":"thinking"${extra},"signature":""}`,
    deltas: [
      ...pieces.map((piece) => `{"type":"thinking_delta","thinking":"${piece}","estimated_tokens":5}`),
      `{"type":"signature_delta","signature":"${signature}"}`,
    ],
    expected: `{"thinking":"${pieces.join("")}","type":"thinking"${extra},"signature":"${signature}"}`,
  }));

const toolBlock: fc.Arbitrary<Example> = fc
  .tuple(fc.constantFrom("tool_use", "server_tool_use"), strangers, object, fc.array(fc.nat(200), { maxLength: 5 }))
  .map(([type, extra, input, cuts]) => {
    const places = [0, ...cuts.map((cut) => cut % (input.length + 1)).sort((a, b) => a - b), input.length];
    const pieces = places.slice(1).map((end, i) => input.slice(places[i], end));
    return {
      start: `{"type":"${type}","id":"toolu_1"${extra},"name":"bash","input":{}}`,
      deltas: pieces.map((piece) => `{"type":"input_json_delta","partial_json":${JSON.stringify(piece)}}`),
      expected: `{"type":"${type}","id":"toolu_1"${extra},"name":"bash","input":${input}}`,
    };
  });

const unknownBlock: fc.Arbitrary<Example> = strangers.map((extra) => {
  const start = `{"type":"hologram"${extra}, "data":{"b":1,"a":2} }`;
  return { start, deltas: [], expected: start };
});

const example = fc.oneof(textBlock, thinkingBlock, toolBlock, unknownBlock);

describe("message assembly", () => {
  it("gives back exactly what was written", () => {
    fc.assert(
      fc.property(fc.array(example, { maxLength: 4 }), (blocks) => {
        const message = new MessageAssembly();
        message.add('{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1}}}');
        for (const [index, { start, deltas }] of blocks.entries()) {
          message.add(`{"type":"content_block_start","index":${index},"content_block":${start}}`);
          for (const delta of deltas) {
            message.add(`{"type":"content_block_delta","index":${index},"delta":${delta}}`);
          }
          message.add(`{"type":"content_block_stop","index":${index}}`);
        }
        message.add('{"type":"message_stop"}');
        expect(message.finish(null).content).toBe(`[${blocks.map(({ expected }) => expected).join(",")}]`);
      }),
      { numRuns: 500 },
    );
  });
});
