import { describe, expect, it } from "vitest";
import { readBlocks, toolInput } from "./content-blocks.ts";

describe("readBlocks", () => {
  it("reads each block with its exact text", () => {
    const content =
      '[{"type":"thinking","thinking":"","signature":"s"},\n {"text":"a\\u0000b","type":"text"},' +
      '{"type":"tool_use","id":"toolu_1","name":"bash","input":{"b":1,"a":12345678901234567890,"10":1e2}}]';
    expect(readBlocks(content)).toEqual([
      { index: 0, type: "thinking", raw: '{"type":"thinking","thinking":"","signature":"s"}' },
      { index: 1, type: "text", raw: '{"text":"a\\u0000b","type":"text"}', text: "a\u0000b" },
      {
        index: 2,
        type: "tool_use",
        raw: '{"type":"tool_use","id":"toolu_1","name":"bash","input":{"b":1,"a":12345678901234567890,"10":1e2}}',
        id: "toolu_1",
        name: "bash",
        inputText: '{"b":1,"a":12345678901234567890,"10":1e2}',
      },
    ]);
  });

  it("keeps a block whose fields have other types than expected", () => {
    expect(readBlocks('[{"type":7,"id":null,"text":{"x":1}}]')).toEqual([
      { index: 0, type: "", raw: '{"type":7,"id":null,"text":{"x":1}}' },
    ]);
  });

  it("has nothing for an empty content", () => {
    expect(readBlocks("[]")).toEqual([]);
  });

  it("says what the model wrote when an input is no JSON object", () => {
    const [block] = readBlocks('[{"type":"tool_use","input":{"INVALID_JSON":"{\\"command\\":\\"rm"}}]');
    expect(block?.brokenInput).toBe('{"command":"rm');
  });
});

describe("toolInput", () => {
  it.each([
    ['{ "z":1.50,\n"a":1e400 }', '{ "z":1.50,\n"a":1e400 }'],
    ['{"command":"rm', '{"INVALID_JSON":"{\\"command\\":\\"rm"}'],
    ["[1]", '{"INVALID_JSON":"[1]"}'],
    ["null", '{"INVALID_JSON":"null"}'],
    ['{"a":"\ud800"}', '{"a":"\\ud800"}'],
    ['{"a":"\ud83d\ude00"}', '{"a":"😀"}'],
    ['{"a":"\\ud800"}', '{"a":"\\ud800"}'],
  ])("%j → %j", (written, expected) => {
    expect(toolInput(written)).toBe(expected);
  });
});
