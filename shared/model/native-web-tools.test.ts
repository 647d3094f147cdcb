import { describe, expect, test } from "vitest";
import { type CapabilityProfile, CLAIMS_NOTHING } from "./capability-profile.ts";
import { nativeDeclaration } from "./native-web-tools.ts";

const OFFERED = { client: ["bash", "lookup"], server: ["web_search", "web_fetch"] };
const declare = (
  name: "web_search" | "web_fetch",
  settings: Parameters<typeof nativeDeclaration>[1],
  profile: Partial<CapabilityProfile> = {},
) => nativeDeclaration(name, settings, { profile: { ...CLAIMS_NOTHING, ...profile }, offered: OFFERED });

describe("the declaration of a native web tool", () => {
  test("is the pinned version, called directly, and nothing that was not asked for", () => {
    expect(declare("web_search", {})).toBe(
      '{"type":"web_search_20260318","name":"web_search","allowed_callers":["direct"]}',
    );
    expect(declare("web_fetch", {})).toBe(
      '{"type":"web_fetch_20260318","name":"web_fetch","allowed_callers":["direct"]}',
    );
    const versions = { web_search: "web_search_20250305", web_fetch: "web_fetch_20250910" };
    expect(declare("web_search", {}, { provider_tool_versions: versions })).toContain('"type":"web_search_20250305"');
  });

  test("says what the agent says of web_search, its nulls left out", () => {
    const user_location = { type: "approximate" as const, city: "Delft", country: null };
    expect(declare("web_search", { allowed_domains: ["a.example/docs"], blocked_domains: null, user_location })).toBe(
      '{"type":"web_search_20260318","name":"web_search","allowed_callers":["direct"],' +
        '"allowed_domains":["a.example/docs"],"user_location":{"type":"approximate","city":"Delft"}}',
    );
  });

  test("says what the agent says of web_fetch, and cites only where the profile has citations", () => {
    const settings = {
      blocked_domains: ["b.example"],
      max_content_tokens: 5000,
      url_sources: { user_input: { type: "all" as const }, client_tool_results: { type: "none" as const } },
    };
    expect(declare("web_fetch", settings, { native_citations: true })).toBe(
      '{"type":"web_fetch_20260318","name":"web_fetch","allowed_callers":["direct"],"blocked_domains":["b.example"],' +
        '"max_content_tokens":5000,"citations":{"enabled":true},' +
        '"url_sources":{"user_input":{"type":"all"},"client_tool_results":{"type":"none"}}}',
    );
    expect(declare("web_fetch", settings)).not.toContain("citations");
  });

  test("leaves results out of responses only where the profile guarantees that they need not come back", () => {
    expect(declare("web_fetch", {}, { native_response_inclusion: true })).toContain('"response_inclusion":"excluded"');
    expect(declare("web_fetch", {})).not.toContain("response_inclusion");
  });

  test.each([
    ["only", ["bash", "gone"], { type: "only", tools: ["bash"] }],
    ["only", ["gone"], { type: "none" }],
    ["except", ["lookup", "gone"], { type: "except", tools: ["lookup"] }],
    ["except", ["gone"], { type: "all" }],
  ] as const)("names only tools that are declared: %s %j", (type, names, expected) => {
    const reference = (name: string) => ({ type: "tool_reference" as const, name });
    const settings = { url_sources: { client_tool_results: { type, tools: names.map(reference) } } };
    const { client_tool_results: said } = JSON.parse(declare("web_fetch", settings)).url_sources;
    expect(said).toEqual("tools" in expected ? { type, tools: expected.tools.map(reference) } : expected);
  });
});
