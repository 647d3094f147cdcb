import { describe, expect, it } from "vitest";
import { offlineAnswer } from "./answer.ts";

const TOOLS = ["bash", "read", "write"].map((name) => ({ name, input_schema: { type: "object" } }));

function answer(messages: readonly unknown[], more: object = { tools: TOOLS }) {
  return offlineAnswer(JSON.stringify({ model: "offline-1", max_tokens: 1000, ...more, messages, stream: true }));
}

const user = (content: unknown) => ({ role: "user", content });
const call = (id: string, name: string) => ({ type: "tool_use", id, name, input: {} });
const assistant = (...content: readonly unknown[]) => ({ role: "assistant", content });
const result = (tool_use_id: string, content: unknown, is_error?: boolean) => ({
  type: "tool_result",
  tool_use_id,
  content,
  ...(is_error !== undefined && { is_error }),
});

describe("a request for a tool", () => {
  it("is announced and made", () => {
    const { blocks, stopReason, model } = answer([user("read README.md")]);
    expect([stopReason, model]).toEqual(["tool_use", "offline-1"]);
    expect(blocks).toEqual([
      { type: "text", text: "I'll read README.md." },
      {
        type: "tool_use",
        id: expect.stringMatching(/^toolu_[0-9a-f]{22}0$/),
        name: "read",
        input: { file_path: "README.md" },
      },
    ]);
  });

  it("goes one call at a time, unless together", () => {
    const oneByOne = answer([user("read a.md and run `date`")]).blocks;
    const together = answer([user("read a.md and run `date` in parallel")]).blocks;
    expect(oneByOne.map((block) => block.type)).toEqual(["text", "tool_use"]);
    expect(together).toMatchObject([
      { text: "I'll read a.md and run `date` at the same time." },
      { name: "read" },
      { name: "bash" },
    ]);
  });

  it("goes on with the next one when the last has its result", () => {
    const { blocks } = answer([
      user("read a.md and run `date`"),
      assistant(call("t1", "read")),
      user([result("t1", "A")]),
    ]);
    expect(blocks).toMatchObject([{ text: "Next I'll run `date`." }, { name: "bash", input: { command: "date" } }]);
  });

  it("ends with what came of each", () => {
    const { blocks, stopReason } = answer([
      user([{ type: "text", text: "read a.md and run `date`" }]),
      assistant(call("t1", "read")),
      user([result("t1", [{ type: "text", text: "# Title\nbody\n" }])]),
      assistant(call("t2", "bash")),
      user([result("t2", "The user denied the call.", true)]),
    ]);
    expect(stopReason).toBe("end_turn");
    expect(blocks).toEqual([
      {
        type: "text",
        text: "I asked to read a.md. The result:\n\n# Title\nbody\n\nI could not run `date`: The user denied the call.",
      },
    ]);
  });

  it("quotes a bounded piece of a long result", () => {
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`).join("\n");
    const [block] = answer([user("read a.md"), assistant(call("t1", "read")), user([result("t1", lines)])]).blocks;
    const expected = `I asked to read a.md. The result:\n\n${lines.split("\n").slice(0, 12).join("\n")}\n… (shortened)`;
    expect(block).toEqual({ type: "text", text: expected });
  });

  it("says which tool it would have needed", () => {
    const { blocks, stopReason } = answer([user("find *.md")]);
    expect(stopReason).toBe("end_turn");
    expect(blocks).toEqual([
      {
        type: "text",
        text: "To list the files that match *.md I would need the glob tool, which this agent does not offer.",
      },
    ]);
  });

  it("starts anew with each message that has text", () => {
    const { blocks } = answer([
      user("read a.md"),
      assistant(call("t1", "read")),
      user([result("t1", "A"), { type: "text", text: "run `pwd`" }]),
    ]);
    expect(blocks).toMatchObject([{ text: "I'll run `pwd`." }, { name: "bash" }]);
  });

  it("counts a call without a result as failed", () => {
    const [block] = answer([user("read a.md"), assistant(call("t1", "read"))]).blocks;
    expect(block).toEqual({ type: "text", text: "I could not read a.md: there is no result" });
  });
});

describe("anything else", () => {
  it("is answered with what can be asked, and how to get a real model", () => {
    const [block] = answer([user("hello")]).blocks;
    expect(block).toEqual({
      type: "text",
      text:
        "You said: hello\n\n" +
        "I am Mango's offline model: fixed rules that need no key and no network, not an AI.\n\n" +
        'With this agent\'s tools you can ask me to "run `ls -la`", "read README.md" or "write hello to notes.txt"; ' +
        'several requests can be joined with "then".\n\n' +
        "For a real model set MANGO_MODEL_BASE_URL, MANGO_MODEL_API_KEY and MANGO_MODEL_ID.",
    });
  });

  it("works without tools, without text, and when tools are forbidden", () => {
    expect(answer([user("hello")], {}).blocks).toMatchObject([{ text: expect.stringContaining("offers no tools") }]);
    expect(answer([], {}).blocks).toMatchObject([{ text: expect.stringContaining("There was no text") }]);
    expect(answer([user("read a.md")], { tools: TOOLS, tool_choice: { type: "none" } }).stopReason).toBe("end_turn");
  });
});

describe("ids, tokens and limits", () => {
  it("gives the same answer to the same request, and other ids to another", () => {
    const first = answer([user("read a.md")]);
    expect(answer([user("read a.md")])).toEqual(first);
    expect(answer([user("read b.md")]).id).not.toBe(first.id);
  });

  it("counts four characters as a token", () => {
    const body = '{"messages":[],"model":"m" }';
    const { usage, blocks } = offlineAnswer(body);
    expect(usage.inputTokens).toBe(7);
    expect(usage.outputTokens).toBe(Math.ceil(JSON.stringify(blocks[0]).length / 4));
  });

  it("stops at max_tokens, the calls left out", () => {
    const { blocks, stopReason } = answer([user("read README.md")], { tools: TOOLS, max_tokens: 2 });
    expect([blocks, stopReason]).toEqual([[{ type: "text", text: "I'll rea" }], "max_tokens"]);
  });
});
