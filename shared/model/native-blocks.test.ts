import { describe, expect, test } from "vitest";
import { readBlocks } from "./content-blocks.ts";
import { halfServerCalls, publicResult } from "./native-blocks.ts";

const CALL = '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}';
const RESULT = '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}';

function shown(block: string) {
  const [read] = readBlocks(`[${block}]`);
  if (read === undefined) throw new Error("The text holds no block.");
  const { content, isError } = publicResult(read);
  return { texts: (JSON.parse(content) as { text: string }[]).map(({ text }) => text), isError };
}

describe("halves of calls", () => {
  test.each([
    ["a call with its result", [CALL, RESULT], []],
    ["a call alone", [CALL], ["srvtoolu_1"]],
    ["a result alone", [RESULT], ["srvtoolu_1"]],
    ["calls that we gate ourselves", ['{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}'], []],
    ["two calls, one result", [CALL, CALL.replace("_1", "_2"), RESULT], ["srvtoolu_2"]],
  ])("%s", (_case, blocks, halves) => {
    expect(halfServerCalls(readBlocks(`[${blocks.join(",")}]`))).toEqual(halves);
  });
});

describe("what clients see of a result", () => {
  test("of a search: title, address and age, and nothing that only the provider can read", () => {
    const result =
      '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",' +
      '"title":"Ferries","url":"https://a.example/ferries","encrypted_content":"EqgfCioIARgB","page_age":"May 2, 2026"}]}';
    expect(shown(result)).toEqual({ texts: ["Ferries\nhttps://a.example/ferries\nMay 2, 2026"], isError: false });
    expect(shown(RESULT)).toEqual({ texts: ["[No results]"], isError: false });
  });

  test("of a search with many results: the first twenty", () => {
    const results = Array.from({ length: 23 }, (_, index) => `{"type":"web_search_result","title":"T${index}"}`);
    const { texts } = shown(`{"type":"web_search_tool_result","tool_use_id":"s","content":[${results.join(",")}]}`);
    expect(texts).toHaveLength(21);
    expect(texts.slice(-2)).toEqual(["T19", "[3 more results]"]);
  });

  test("of a fetched text: its head and the first 2,000 characters", () => {
    const fetched = {
      type: "web_fetch_tool_result",
      tool_use_id: "s",
      content: {
        type: "web_fetch_result",
        url: "https://a.example/",
        retrieved_at: "2026-11-01T00:00:00Z",
        content: {
          type: "document",
          title: "A",
          source: { type: "text", media_type: "text/plain", data: `${"x".repeat(1999)}😀 and more` },
        },
      },
    };
    expect(shown(JSON.stringify(fetched))).toEqual({
      texts: ["A\nhttps://a.example/\n2026-11-01T00:00:00Z", `${"x".repeat(1999)}…`],
      isError: false,
    });
  });

  test("of a fetched PDF: what it is, not its bytes", () => {
    const pdf =
      '{"type":"web_fetch_tool_result","tool_use_id":"s","content":{"type":"web_fetch_result","url":"https://a.example/a.pdf",' +
      '"content":{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjcK"}}}}';
    expect(shown(pdf).texts).toEqual(["https://a.example/a.pdf", "[application/pdf]"]);
  });

  test("of a tool that failed: its code, as an error", () => {
    const failed =
      '{"type":"web_search_tool_result","tool_use_id":"s","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}';
    expect(shown(failed)).toEqual({ texts: ["Error: max_uses_exceeded"], isError: true });
  });

  test("of what is not known yet: that there is nothing to show", () => {
    expect(
      shown('{"type":"web_search_tool_result","tool_use_id":"s","content":{"type":"novel","data":"secret"}}'),
    ).toEqual({
      texts: ["[No content]"],
      isError: false,
    });
    expect(shown('{"type":"web_search_tool_result","tool_use_id":"s"}').texts).toEqual(["[No content]"]);
  });
});
