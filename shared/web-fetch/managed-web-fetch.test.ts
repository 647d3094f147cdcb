import { describe, expect, test } from "vitest";
import type { PinnedTool } from "../permissions/runtime.ts";
import type { ToolCall } from "../turns/tool-executor.ts";
import type { PageOutcome, PageRequest } from "./fetch-page.ts";
import { managedWebFetch } from "./managed-web-fetch.ts";

const URL_A = "https://a.example/";
const PROVENANCE = {
  requested_url: URL_A,
  final_url: "https://a.example/final",
  redirects: [URL_A],
  address: "93.184.215.14",
  status: 200,
  media_type: "text/html",
  bytes: 5,
  sha256: "ab",
  started_at: "2026-01-01T00:00:00.000Z",
  duration_ms: 1,
};
const page = (more: Partial<Extract<PageOutcome, { kind: "page" }>> = {}): PageOutcome => ({
  kind: "page",
  text: "Hello",
  cut: false,
  provenance: PROVENANCE,
  ...more,
});

/** Runs a call of web_fetch in a session whose user has named URL_A. */
async function run(
  input: string,
  its: {
    readonly settings?: PinnedTool["webFetch"];
    readonly outcome?: PageOutcome | Error;
    readonly name?: string;
  } = {},
) {
  const requests: PageRequest[] = [];
  const executor = managedWebFetch({
    domains: { allowed: null, blocked: ["blocked.example"] },
    fetchPage: async (request) => {
      requests.push(request);
      const { outcome = page() } = its;
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  });
  const tool: PinnedTool = {
    name: "web_fetch",
    owner: "platform_managed",
    policy: "always_allow",
    declaration: "{}",
    ...(its.settings !== undefined && { webFetch: its.settings }),
  };
  const call: ToolCall = {
    name: its.name ?? "web_fetch",
    input,
    idempotencyKey: "step_1",
    signal: new AbortController().signal,
    session: {
      tools: [tool],
      readTranscript: async () => [
        {
          id: "tent_1",
          place: { turn: 1, entry: 0 },
          role: "user",
          content: `[{"type":"text","text":"Read ${URL_A}"}]`,
          toolUseIds: [],
          halfServerCalls: [],
          refused: false,
          provider: "messages",
          model: "m",
        },
      ],
    },
  };
  const { content, ...outcome } = await executor.run(call);
  const [block, ...more] = JSON.parse(content) as { type: string; text: string }[];
  expect(more).toEqual([]);
  return { requests, text: block?.text ?? "", ...outcome };
}

const INPUT = JSON.stringify({ url: URL_A });

describe("managed web_fetch", () => {
  test("fetches a URL that has appeared, under the deployment's rule and the agent's", async () => {
    const settings = { allowed_domains: ["a.example"], max_content_tokens: 10 };
    const { requests, ...outcome } = await run(INPUT, { settings });
    expect(requests).toEqual([
      {
        url: URL_A,
        domains: [
          { allowed: null, blocked: ["blocked.example"] },
          { allowed: ["a.example"], blocked: null },
        ],
        max_characters: 40,
      },
    ]);
    expect(outcome).toEqual({
      text: "https://a.example/final (text/html)\n\nHello",
      isError: false,
      provenance: JSON.stringify(PROVENANCE),
    });
  });

  test.each([
    [undefined, 100_000],
    [5_000, 20_000],
    [9_999_999, 400_000],
  ])("max_content_tokens %s makes %d characters", async (max_content_tokens, characters) => {
    const { requests } = await run(INPUT, { settings: { max_content_tokens } });
    expect(requests[0]?.max_characters).toBe(characters);
  });

  test("says where it cut, and when there is nothing to read", async () => {
    expect((await run(INPUT, { outcome: page({ cut: true }) })).text).toMatch(
      /Hello\n\n\[Cut here: the page goes on after its first 5 characters\.\]$/,
    );
    expect((await run(INPUT, { outcome: page({ text: "" }) })).text).toMatch(/\(no text\)$/);
  });

  test.each([
    ["a URL that has not appeared", '{"url":"https://b.example/"}', {}],
    ["a source that the agent takes away", INPUT, { url_sources: { user_input: { type: "none" as const } } }],
    ["no url", "{}", {}],
    ["a url that is none", '{"url":7}', {}],
  ])("%s: nothing is asked of the network, and the answer quotes no URL", async (_case, input, settings) => {
    const { requests, text, isError } = await run(input, { settings });
    expect([requests, isError]).toEqual([[], true]);
    expect(text).not.toContain("://");
  });

  test("a page that could not be fetched is an error with its record", async () => {
    const outcome: PageOutcome = {
      kind: "error",
      code: "timeout",
      message: "The page took too long.",
      provenance: PROVENANCE,
    };
    expect(await run(INPUT, { outcome })).toMatchObject({
      text: "The page took too long.",
      isError: true,
      provenance: JSON.stringify(PROVENANCE),
    });
  });

  test("a fetcher that cannot be asked has done nothing: an error, not a call of unknown effect", async () => {
    expect(await run(INPUT, { outcome: new Error("function is gone") })).toMatchObject({
      text: "The page could not be fetched.",
      isError: true,
    });
  });

  test("no other tool is its own", async () => {
    expect(await run("{}", { name: "web_search" })).toMatchObject({
      requests: [],
      text: "web_search is not available here.",
      isError: true,
    });
  });
});
