import { describe, expect, test } from "vitest";
import type { WebFetchSettings } from "../contract/tools.ts";
import { hasAppeared } from "./seen-urls.ts";

const TOOLS = [
  { name: "bash", owner: "client_self_hosted" },
  { name: "read", owner: "client_self_hosted" },
  { name: "lookup", owner: "client_custom" },
  { name: "web_fetch", owner: "platform_managed" },
  { name: "web_search", owner: "provider_native" },
] as const;

const user = (...blocks: unknown[]) => ({ role: "user", content: JSON.stringify(blocks) }) as const;
const assistant = (...blocks: unknown[]) => ({ role: "assistant", content: JSON.stringify(blocks) }) as const;
const text = (value: string) => ({ type: "text", text: value });
const call = (name: string, input: object = {}) => ({ type: "tool_use", id: `id_${name}`, name, input });
const result = (name: string, value: string, more: object = {}) => ({
  type: "tool_result",
  tool_use_id: `id_${name}`,
  content: [text(value)],
  ...more,
});
const seen = (
  url: string,
  transcript: readonly (ReturnType<typeof user> | ReturnType<typeof assistant>)[],
  sources: WebFetchSettings["url_sources"] = null,
) => hasAppeared(url, { transcript, tools: TOOLS, sources });

const URL_A = "https://a.example/x?y=1";

describe("a URL has appeared when it stands in", () => {
  test.each([
    ["a person's message", [user(text(`Read ${URL_A} please`))]],
    ["an attached text", [user({ type: "document", source: { type: "text", data: `see ${URL_A}` } })]],
    ["the address of an attachment", [user({ type: "image", source: { type: "url", url: URL_A } })]],
    ["a worker's result", [assistant(call("bash")), user(result("bash", `found ${URL_A}`))]],
    ["a worker's error", [assistant(call("bash")), user(result("bash", `404 ${URL_A}`, { is_error: true }))]],
    ["an application's result", [assistant(call("lookup")), user(result("lookup", URL_A))]],
    ["a page that was fetched", [assistant(call("web_fetch")), user(result("web_fetch", `next (${URL_A})`))]],
    [
      "what a search found",
      [
        assistant(
          { type: "server_tool_use", id: "s1", name: "web_search", input: {} },
          { type: "web_search_tool_result", tool_use_id: "s1", content: [{ type: "web_search_result", url: URL_A }] },
        ),
      ],
    ],
  ])("%s", (_case, transcript) => {
    expect(seen(URL_A, transcript)).toBe(true);
    expect(seen("https://a.example/other", transcript)).toBe(false);
  });
});

describe("it has not when it stands only in", () => {
  test.each([
    ["what the model said", [assistant(text(URL_A))]],
    ["what the model asked for", [assistant(call("web_fetch", { url: URL_A }))]],
    [
      "a search of the model's",
      [assistant({ type: "server_tool_use", id: "s", name: "web_search", input: { query: URL_A } })],
    ],
    ["an error that we wrote", [assistant(call("web_fetch")), user(result("web_fetch", URL_A, { is_error: true }))]],
    [
      "the refusal of a tool of that name",
      [assistant(call(URL_A)), user(result(URL_A, `Permission to use ${URL_A} has been denied.`))],
    ],
    ["a result without a call", [user(result("bash", URL_A))]],
    [
      "a result that quotes its own call",
      [
        assistant(call("read", { file_path: URL_A })),
        user(result("read", `read: ${URL_A}: no such file or directory`)),
      ],
    ],
    [
      "an error that quotes its own call",
      [assistant(call("bash", { command: `cat ${URL_A}` })), user(result("bash", URL_A, { is_error: true }))],
    ],
    ["nothing", []],
  ])("%s", (_case, transcript) => {
    expect(seen(URL_A, transcript)).toBe(false);
  });
});

test("the result of one call says nothing of another's: what a worker found is fetched, although the model looked for it too", () => {
  const transcript = [
    assistant(call("read", { file_path: URL_A }), call("bash", { command: "cat links.txt" })),
    user(result("read", `read: ${URL_A}: no such file or directory`), result("bash", `see ${URL_A}`)),
  ];
  expect(seen(URL_A, transcript)).toBe(true);
});

test("a call that is quoted with escapes is quoted all the same", () => {
  const transcript = [
    assistant(call("read", { file_path: "../https://a.example/\tsecret" })),
    user(result("read", 'read: path "../https://a.example/\\tsecret" is outside', { is_error: true })),
  ];
  expect(seen("https://a.example/\\tsecret", transcript)).toBe(false);
});

describe("where a URL ends in a text", () => {
  test.each([
    "%",
    "(%)",
    "[text](%)",
    "[%](https://b.example)",
    "<%>",
    '"%"',
    "'%'",
    "`%`",
    "%.",
    "%, and",
    "see %!",
    "**%**",
    "%\nnext",
    "%#part",
    "a|%|b",
    '{\\"url\\":\\"%\\"}',
  ])("%s", (written) => {
    expect(seen(URL_A, [user(text(written.replace("%", URL_A)))])).toBe(true);
  });

  test.each(["%0", "%&z=2", "%/more", "%.txt", "%,5", "%-b", "%%20"])("not in %s, which is another one", (written) => {
    expect(seen(URL_A, [user(text(written.replace("%", URL_A)))])).toBe(false);
  });
});

test("spellings of the same URL", () => {
  const said = (value: string) => [user(text(value))];
  expect(seen("https://a.example/", said("see https://a.example now"))).toBe(true);
  expect(seen("https://a.example", said("see https://a.example/ now"))).toBe(true);
  expect(seen("HTTPS://A.example/x", said("see https://a.example/x"))).toBe(true);
  expect(seen("https://a.example/x#part", said("see https://a.example/x"))).toBe(true);
  expect(seen("https://a.example", said("see https://a.example.evil.example/"))).toBe(false);
  expect(seen("https://a.example/", said("see http://a.example/"))).toBe(false);
});

describe("the agent's url_sources", () => {
  const transcript = [
    user(text("https://user.example/")),
    assistant(call("bash"), call("lookup"), call("web_fetch")),
    user(
      result("bash", "https://bash.example/"),
      result("lookup", "https://lookup.example/"),
      result("web_fetch", "https://fetched.example/"),
    ),
  ];
  const names = ["user", "bash", "lookup", "fetched"];
  const open = (sources: WebFetchSettings["url_sources"]) =>
    names.filter((name) => seen(`https://${name}.example/`, transcript, sources));
  const tools = (...of: string[]) => of.map((name) => ({ type: "tool_reference" as const, name }));

  test.each([
    [{}, names],
    [{ user_input: { type: "none" } }, ["bash", "lookup", "fetched"]],
    [{ client_tool_results: { type: "none" } }, ["user", "fetched"]],
    [{ client_tool_results: { type: "only", tools: tools("lookup") } }, ["user", "lookup", "fetched"]],
    [{ client_tool_results: { type: "except", tools: tools("lookup") } }, ["user", "bash", "fetched"]],
    [{ server_tool_results: { type: "none" } }, ["user", "bash", "lookup"]],
    [{ server_tool_results: { type: "only", tools: tools("web_search") } }, ["user", "bash", "lookup"]],
    [{ server_tool_results: { type: "all" }, client_tool_results: null }, names],
  ] as const)("%j", (sources, expected) => {
    expect(open(sources as WebFetchSettings["url_sources"])).toEqual(expected);
  });
});
