import { describe, expect, it } from "vitest";
import { BlockAssembly, MalformedStream } from "./block-assembly.ts";

function assemble(start: string, ...deltas: readonly string[]): string {
  const block = new BlockAssembly(start, (JSON.parse(start) as { type: string }).type);
  for (const delta of deltas) block.add(delta, (JSON.parse(delta) as { type: string }).type);
  return block.finish();
}

describe("a block without deltas", () => {
  it.each([
    '{"type":"redacted_thinking","data":"AAAA"}',
    '{ "type" : "hologram", "2":1, "1":12345678901234567890, "n":1.0e+5, "s":"\\u0000\\/\\ud800" }',
    '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"encrypted_content":"Eo8="}]}',
  ])("is kept as it came: %s", (start) => {
    expect(assemble(start)).toBe(start);
  });
});

describe("text", () => {
  it("is continued with its escapes as they came", () => {
    const text = assemble(
      '{"type":"text","text":"","x":1}',
      '{"type":"text_delta","text":"caf\\u00e9 "}',
      '{"type":"text_delta","text":"\\ud83d"}',
      '{"type":"text_delta","text":"\\ude00\\u0000\\\\u0000\\/"}',
    );
    expect(text).toBe('{"type":"text","text":"caf\\u00e9 \\ud83d\\ude00\\u0000\\\\u0000\\/","x":1}');
  });

  it("is added where the block had none or null", () => {
    const delta = '{"type":"text_delta","text":"hi"}';
    expect(assemble('{"type":"text" }', delta)).toBe('{"type":"text","text":"hi" }');
    expect(assemble('{"text":null,"type":"text"}', delta)).toBe('{"text":"hi","type":"text"}');
  });

  it("collects citations in order, their text untouched", () => {
    const text = assemble(
      '{"type":"text","text":"","citations":[]}',
      '{"type":"text_delta","text":"a"}',
      '{"type":"citations_delta","citation":{"b":1.0,"a":2}}',
      '{"citation": {"z":"\\u0041"} ,"type":"citations_delta"}',
    );
    expect(text).toBe('{"type":"text","text":"a","citations":[{"b":1.0,"a":2},{"z":"\\u0041"}]}');
  });

  it("adds citations after those of the start, and where there were none", () => {
    const delta = '{"type":"citations_delta","citation":{"a":1}}';
    expect(assemble('{"type":"text","citations":[{"b":0}]}', delta)).toBe(
      '{"type":"text","citations":[{"b":0},{"a":1}]}',
    );
    expect(assemble('{"type":"text","citations":null}', delta)).toBe('{"type":"text","citations":[{"a":1}]}');
    expect(assemble('{"type":"text"}', delta)).toBe('{"type":"text","citations":[{"a":1}]}');
  });
});

describe("thinking", () => {
  it("keeps thinking and signature, and leaves progress hints out", () => {
    const text = assemble(
      '{"type":"thinking","thinking":"","signature":""}',
      '{"type":"thinking_delta","thinking":"Let me ","estimated_tokens":50}',
      '{"type":"thinking_delta","thinking":"see\\u2026","estimated_tokens":null}',
      '{"type":"signature_delta","signature":"EqQB\\/+=="}',
    );
    expect(text).toBe('{"type":"thinking","thinking":"Let me see\\u2026","signature":"EqQB\\/+=="}');
  });

  it("keeps a signature whose thinking was omitted", () => {
    const text = assemble(
      '{"type":"thinking","thinking":"","signature":""}',
      '{"type":"signature_delta","signature":"Eq=="}',
    );
    expect(text).toBe('{"type":"thinking","thinking":"","signature":"Eq=="}');
  });
});

describe("tool input", () => {
  const start = '{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}';

  it("is the joined pieces, number forms and key order kept", () => {
    const text = assemble(
      start,
      '{"type":"input_json_delta","partial_json":""}',
      '{"type":"input_json_delta","partial_json":"{\\"b\\": 1.0, \\"a\\":1234567"}',
      '{"type":"input_json_delta","partial_json":"8901234567890,\\"n\\":\\"\\\\u0000\\"}"}',
    );
    expect(text).toBe(
      '{"type":"tool_use","id":"toolu_1","name":"bash","input":{"b": 1.0, "a":12345678901234567890,"n":"\\u0000"}}',
    );
  });

  it("is the start's own input when no piece came", () => {
    expect(assemble(start)).toBe(start);
    const whole = '{"type":"server_tool_use","input":{"query":"x"}}';
    expect(assemble(whole, '{"type":"input_json_delta","partial_json":""}')).toBe(whole);
  });

  it.each([
    ['{"type":"tool_use","name":"now"}', '{"type":"tool_use","name":"now","input":{}}'],
    ['{"type":"mcp_tool_use","input":""}', '{"type":"mcp_tool_use","input":{}}'],
    ['{"input":null,"type":"server_tool_use"}', '{"input":{},"type":"server_tool_use"}'],
  ])("is an empty object where a call has none: %s", (bare, expected) => {
    expect(assemble(bare)).toBe(expected);
  });

  it("that was cut off is kept as a string, so that the content stays JSON", () => {
    const text = assemble(start, '{"type":"input_json_delta","partial_json":"{\\"command\\":\\"ls"}');
    expect(text).toBe(
      '{"type":"tool_use","id":"toolu_1","name":"bash","input":{"INVALID_JSON":"{\\"command\\":\\"ls"}}',
    );
  });
});

describe("other deltas", () => {
  it("compaction sets final values", () => {
    const text = assemble(
      '{"type":"compaction","content":null}',
      '{"type":"compaction_delta","content":"Summary","encrypted_content":"EA=="}',
    );
    expect(text).toBe('{"type":"compaction","content":"Summary","encrypted_content":"EA=="}');
  });

  it("an unknown delta fills the fields of its own names by their kind", () => {
    const text = assemble(
      '{"type":"hologram","beam":"a","points":[1],"frame":{"n":1},"kept":0}',
      '{"type":"hologram_delta","beam":"b\\u0000","points":[2.0,{"x":3}],"frame":{"n":2},"kept":null,"new":1e3}',
      '{"type":"hologram_delta","beam":"c"}',
    );
    expect(text).toBe(
      '{"type":"hologram","beam":"ab\\u0000c","points":[1,2.0,{"x":3}],"frame":{"n":2},"kept":0,"new":1e3}',
    );
  });

  it("grows the last of a doubled key, the one that counts", () => {
    expect(assemble('{"type":"text","text":"x","text":"y"}', '{"type":"text_delta","text":"z"}')).toBe(
      '{"type":"text","text":"x","text":"yz"}',
    );
  });

  it.each([
    ['{"type":"text","text":7}', '{"type":"text_delta","text":"a"}'],
    ['{"type":"text"}', '{"type":"text_delta","text":7}'],
    ['{"type":"tool_use"}', '{"type":"input_json_delta"}'],
    ['{"type":"text","citations":{}}', '{"type":"citations_delta","citation":{}}'],
  ])("a delta that cannot continue its field breaks the stream: %s + %s", (start, delta) => {
    expect(() => assemble(start, delta)).toThrow(MalformedStream);
  });
});
