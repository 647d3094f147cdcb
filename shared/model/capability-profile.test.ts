import { describe, expect, test } from "vitest";
import { CLAIMS_NOTHING, ProfileError, parseProfile } from "./capability-profile.ts";

describe("a capability profile", () => {
  test("claims nothing that it does not state", () => {
    expect(parseProfile('{"version":"v1"}')).toEqual({
      version: "v1",
      native_web_search: false,
      native_web_fetch: false,
      native_citations: false,
      native_response_inclusion: false,
      preserves_unknown_content_blocks: false,
      provider_tool_versions: { web_search: "web_search_20260318", web_fetch: "web_fetch_20260318" },
      provider_idempotency: null,
      context_window_tokens: null,
      max_request_bytes: 31_457_280,
    });
    expect(CLAIMS_NOTHING).toEqual(parseProfile('{"version":"unstated-1"}'));
  });

  test("states versions, limits and the header for idempotency", () => {
    const stated = {
      version: "gateway-7",
      native_web_search: true,
      preserves_unknown_content_blocks: true,
      provider_tool_versions: { web_search: "web_search_20250305" },
      provider_idempotency: { header: "idempotency-key" },
      context_window_tokens: 200_000,
      max_request_bytes: 1_000_000,
    };
    expect(parseProfile(JSON.stringify(stated))).toMatchObject({
      ...stated,
      provider_tool_versions: { web_search: "web_search_20250305", web_fetch: "web_fetch_20260318" },
    });
  });

  test.each([
    ["{", "is not JSON"],
    ["[]", "must be a JSON object"],
    ['{"version":"v1","native_web_serach":true}', "native_web_serach is not a key of a profile"],
    [
      '{"version":"v1","provider_tool_versions":{"web_crawl":"web_crawl_20260101"}}',
      "provider_tool_versions.web_crawl is not a key of a profile",
    ],
    ["{}", "version: Invalid input: expected string, received undefined"],
    ['{"version":""}', "version: must be 1 to 64 of A-Z a-z 0-9 . _ -"],
    [
      '{"version":"v1","provider_tool_versions":{"web_fetch":"web_search_20260318"}}',
      "provider_tool_versions.web_fetch: must be web_fetch_ and a date of eight digits",
    ],
    [
      '{"version":"v1","native_web_fetch":true}',
      "native_web_fetch: needs preserves_unknown_content_blocks: the next request sends back the blocks that the tool was answered with",
    ],
    [
      '{"version":"v1","provider_idempotency":{"header":"authorization"}}',
      "provider_idempotency.header: is a header that the request has already",
    ],
    ['{"version":"v1","max_request_bytes":99999999}', "max_request_bytes: Too big: expected number to be <=31457280"],
  ])("is refused: %s", (text, message) => {
    expect(() => parseProfile(text)).toThrow(new ProfileError(message));
  });
});
