import { describe, expect, test } from "vitest";
import type { SessionRuntime } from "../permissions/runtime.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";
import { buildRequest, toolResultBlock } from "./build-request.ts";

const runtime: SessionRuntime = {
  agentName: "Test",
  provider: "messages",
  system: "Be brief.",
  model: "m-1",
  environment: { id: "env_1", updatedAt: "2026-01-01T00:00:00.000Z" },
  agent: { id: "agent_1", version: 1 },
  tools: [{ name: "bash", owner: "client_self_hosted", policy: "always_allow", declaration: '{"name":"bash"}' }],
  toolVersion: "v",
  profileVersion: "messages/1",
};

const entry = (role: "user" | "assistant", content: string, toolUseIds: string[] = []): TranscriptEntry => ({
  id: "tent_1",
  place: { turn: 1, entry: 0 },
  role,
  content,
  toolUseIds,
  halfServerCalls: [],
  refused: false,
  provider: "messages",
  model: "m-1",
});

const UNKNOWN =
  '"content":[{"type":"text","text":"No result: the call was interrupted, and whether it took effect is unknown."}],"is_error":true}';
const result = (id: string) => `{"type":"tool_result","tool_use_id":"${id}",${UNKNOWN}`;

function messagesOf(transcript: TranscriptEntry[]): string {
  const body = buildRequest(runtime, transcript);
  return body.slice(body.indexOf('"messages":') + '"messages":'.length, body.lastIndexOf(',"stream"'));
}

test("the body holds model, limits, system, tools and messages, and asks for a stream", () => {
  expect(buildRequest(runtime, [entry("user", '[{"type":"text","text":"hi"}]')])).toBe(
    '{"model":"m-1","max_tokens":16384,"system":"Be brief.","tools":[{"name":"bash"}],' +
      '"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":true}',
  );
});

test("what a provider sent goes back byte for byte: large numbers, key order, escapes (F10, F11, F31)", () => {
  const block = '{"type":"odd","2":1,"1":12345678901234567890,"text":"\\u0000\\ud800 \\/"}';
  expect(messagesOf([entry("user", "[1]"), entry("assistant", `[ ${block} ]`)])).toBe(
    `[{"role":"user","content":[1]},{"role":"assistant","content":[${block}]}]`,
  );
});

describe("calls and their results (F01)", () => {
  test("calls without any result are answered with errors, first in the next user message", () => {
    const transcript = [entry("user", "[0]"), entry("assistant", '["a","b"]', ["t1", "t2"]), entry("user", '["next"]')];
    expect(messagesOf(transcript)).toBe(
      `[{"role":"user","content":[0]},{"role":"assistant","content":["a","b"]},{"role":"user","content":[${result("t1")},${result("t2")},"next"]}]`,
    );
  });

  test("known results come first, missing ones after them, then what was said", () => {
    const transcript = [
      entry("user", "[0]"),
      entry("assistant", '["a","b"]', ["t1", "t2"]),
      entry("user", '["result of t1"]', ["t1"]),
      entry("user", '["next"]'),
    ];
    expect(messagesOf(transcript)).toBe(
      `[{"role":"user","content":[0]},{"role":"assistant","content":["a","b"]},{"role":"user","content":["result of t1",${result("t2")},"next"]}]`,
    );
  });

  test("messages of one role in a row become one, and an empty answer becomes none", () => {
    const transcript = [entry("user", '["one"]'), entry("assistant", "[]"), entry("user", '["two"]')];
    expect(messagesOf(transcript)).toBe('[{"role":"user","content":["one","two"]}]');
  });

  test("text of nothing but white space is left out whole, however it is escaped", () => {
    const call = '{"type":"tool_use","id":"t1"}';
    const blank = `[{"type":"text","text":"\\n\\n "},${call},{"text":"","type":"text"}]`;
    const transcript = [entry("user", '["go"]'), entry("assistant", blank, ["t1"]), entry("user", '["r"]', ["t1"])];
    expect(messagesOf(transcript)).toBe(
      `[{"role":"user","content":["go"]},{"role":"assistant","content":[${call}]},{"role":"user","content":["r"]}]`,
    );
  });

  test("another model's signed blocks are left out whole, its words stay; our own stay byte for byte (F11)", () => {
    const thinking = '{"type":"thinking","thinking":"…","signature":"s\\u002b"}';
    const answer = entry("assistant", `[${thinking},{"type":"text","text":"yes"}]`);
    const asked = entry("user", '["so?"]');
    expect(messagesOf([asked, answer])).toContain(`[${thinking},{"type":"text","text":"yes"}]`);
    for (const author of [{ model: "m-0" }, { provider: "offline" }]) {
      expect(messagesOf([asked, { ...answer, ...author }])).toBe(
        '[{"role":"user","content":["so?"]},{"role":"assistant","content":[{"type":"text","text":"yes"}]}]',
      );
    }
  });

  test("of a message that the provider refused, the text stays and the files are left out", () => {
    const content = '[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","data":"broken"}}]';
    expect(messagesOf([{ ...entry("user", content), refused: true }])).toBe(
      '[{"role":"user","content":[{"type":"text","text":"look"},' +
        '{"type":"text","text":"[A file of this message was refused by the model provider and is left out.]"}]}]',
    );
  });
});

test.each(["[]", '[{"type":"text","text":" \\n"}]'])("a result without content says so: %s", (content) => {
  expect(toolResultBlock({ toolUseId: "t1", content, isError: true })).toBe(
    '{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"(no output)"}],"is_error":true}',
  );
});

describe("calls of the provider's own tools", () => {
  const call = (id: string) => `{"type":"server_tool_use","id":"${id}","name":"web_search","input":{"query":"q"}}`;
  const answer = (id: string) => `{"type":"web_search_tool_result","tool_use_id":"${id}","content":[]}`;
  const said = '{"type":"text","text":"So."}';
  const halves = (turn: number, content: string, ...halfServerCalls: string[]): TranscriptEntry => ({
    ...entry("assistant", content),
    place: { turn, entry: 1 },
    halfServerCalls,
  });
  const user = (turn: number): TranscriptEntry => ({ ...entry("user", `[${turn}]`), place: { turn, entry: 0 } });
  const users = (turn: number) => `{"role":"user","content":[${turn}]}`;

  test("a paused call goes back unchanged in the turn that runs", () => {
    expect(messagesOf([user(1), halves(1, `[${said},${call("s1")}]`, "s1")])).toBe(
      `[${users(1)},{"role":"assistant","content":[${said},${call("s1")}]}]`,
    );
  });

  test("a call whose result came in a later answer of its turn stays, and so does the result", () => {
    const transcript = [
      user(1),
      halves(1, `[${call("s1")}]`, "s1"),
      halves(1, `[${answer("s1")},${said}]`, "s1"),
      user(2),
    ];
    expect(messagesOf(transcript)).toBe(
      `[${users(1)},{"role":"assistant","content":[${call("s1")},${answer("s1")},${said}]},${users(2)}]`,
    );
  });

  test("half of a call that its turn left behind is left out whole, and nothing else is touched (F01)", () => {
    const transcript = [
      user(1),
      halves(1, `[${said},${call("s1")},${answer("s1")},${call("s2")}]`, "s2"),
      user(2),
      halves(2, `[${answer("s3")}]`, "s3"),
      user(3),
    ];
    expect(messagesOf(transcript)).toBe(
      `[${users(1)},{"role":"assistant","content":[${said},${call("s1")},${answer("s1")}]},{"role":"user","content":[2,3]}]`,
    );
  });
});

test("a small context window keeps half of itself for the request", () => {
  const asked = (context_window_tokens: number) => {
    const body = buildRequest({ ...runtime, profile: { context_window_tokens } }, []);
    return (JSON.parse(body) as { max_tokens: number }).max_tokens;
  };
  expect([asked(8_192), asked(200_000)]).toEqual([4_096, 16_384]);
});
