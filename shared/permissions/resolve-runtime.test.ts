import { describe, expect, test } from "vitest";
import { resolveTools } from "../agents/definition.ts";
import type { SessionAgent } from "../contract/agents.ts";
import { Unsupported } from "../contract/errors.ts";
import { Tools } from "../contract/tools.ts";
import { CLAIMS_NOTHING, parseProfile } from "../model/capability-profile.ts";
import type { Capabilities } from "./capabilities.ts";
import { resolveRuntime } from "./resolve-runtime.ts";
import { pinnedProfile } from "./runtime.ts";

const ENVIRONMENT = { id: "env_1", updatedAt: "2026-01-01T00:00:00.000Z" };
const NATIVE = parseProfile(
  '{"version":"gateway-7","native_web_search":true,"native_web_fetch":true,"preserves_unknown_content_blocks":true}',
);
const capable = (more: Partial<Capabilities> = {}): Capabilities => ({
  provider: "messages",
  profile: CLAIMS_NOTHING,
  managed: [],
  ...more,
});

function resolve(tools: readonly object[], capabilities: Capabilities) {
  const agent: SessionAgent = {
    id: "agent_1",
    type: "agent",
    version: 3,
    name: "Test",
    description: null,
    system: null,
    model: { id: "m-1", effort: { type: "high" } },
    tools: resolveTools(Tools.parse(tools)),
    mcp_servers: [],
    skills: [],
    multiagent: null,
    execution_identity: { type: "service_account" },
  };
  return resolveRuntime(agent, capabilities, ENVIRONMENT);
}

const toolset = (configs: readonly object[], default_config: object = {}) => ({
  type: "agent_toolset_20260401",
  default_config,
  configs,
});
const only = (config: object) => [toolset([{ enabled: true, ...config }], { enabled: false })];
const policy = (type: string) => ({ permission_policy: { type } });

describe("owners", () => {
  test("a plain toolset offers the web tools where the endpoint's profile has them, and only there", () => {
    const names = (capabilities: Capabilities) =>
      resolve([toolset([])], capabilities).tools.map(({ name, owner }) => `${name}:${owner}`);
    const six = ["bash", "read", "write", "edit", "glob", "grep"].map((name) => `${name}:client_self_hosted`);
    expect(names(capable())).toEqual(six);
    expect(names(capable({ profile: NATIVE }))).toEqual([
      ...six,
      "web_fetch:provider_native",
      "web_search:provider_native",
    ]);
    expect(names(capable({ profile: NATIVE, managed: ["web_fetch"] }))).toEqual([
      ...six,
      "web_fetch:platform_managed",
      "web_search:provider_native",
    ]);
    expect(names(capable({ managed: ["web_fetch"] }))).toEqual([...six, "web_fetch:platform_managed"]);
  });

  test("custom tools stay the application's, without a policy", () => {
    const tool = { type: "custom", name: "lookup", description: "d", input_schema: { type: "object" } };
    expect(resolve([tool], capable()).tools).toEqual([
      {
        name: "lookup",
        owner: "client_custom",
        policy: null,
        declaration: '{"name":"lookup","description":"d","input_schema":{"type":"object"}}',
      },
    ]);
  });

  test.each(["web_search", "web_fetch"])("%s by name without the capability: refused, naming both", (name) => {
    const refused = () => resolve(only({ name }), capable());
    expect(refused).toThrow(Unsupported);
    expect(refused).toThrow(
      `agent.tools: ${name} is enabled, and the model endpoint's capability profile (unstated-1) does not have native_${name}. Set enabled to false.`,
    );
  });

  test.each([
    ["web_search", "always_ask", []],
    ["web_search", "auto", []],
    ["web_fetch", "always_ask", []],
    ["web_fetch", "auto", []],
    ["web_search", "always_ask", ["web_fetch"]],
  ] as const)("%s under %s, managed %j: refused, by name and by default", (name, type, managed) => {
    const capabilities = capable({ profile: NATIVE, managed });
    const message = `tools: ${name} runs inside the model request, where no call can be held back: ${type} is not possible.`;
    expect(() => resolve(only({ name, ...policy(type) }), capabilities)).toThrow(message);
    const other = name === "web_search" ? "web_fetch" : "web_search";
    expect(() => resolve([toolset([{ name: other, enabled: false }], policy(type))], capabilities)).toThrow(message);
  });

  test("a managed web_fetch may ask, and keeps what the agent says of it", () => {
    const config = {
      name: "web_fetch",
      ...policy("always_ask"),
      allowed_domains: ["a.example"],
      max_content_tokens: 9,
    };
    expect(resolve(only(config), capable({ managed: ["web_fetch"] })).tools).toMatchObject([
      {
        name: "web_fetch",
        owner: "platform_managed",
        policy: "always_ask",
        webFetch: { allowed_domains: ["a.example"], max_content_tokens: 9 },
      },
    ]);
  });
});

describe("what is pinned", () => {
  test("the profile, its version, and the versions of the provider's tools", () => {
    const runtime = resolve([toolset([])], capable({ profile: NATIVE }));
    expect(runtime).toMatchObject({
      provider: "messages",
      toolVersion: "agent_toolset_20260401+web_fetch_20260318+web_search_20260318",
      profileVersion: "messages/gateway-7",
      profile: NATIVE,
    });
    expect(resolve([toolset([])], capable())).toMatchObject({
      toolVersion: "agent_toolset_20260401",
      profileVersion: "messages/unstated-1",
    });
  });

  test("a session of an older release claims nothing, and of a newer capability nothing either", () => {
    expect(pinnedProfile({})).toEqual(CLAIMS_NOTHING);
    expect(pinnedProfile({ profile: { version: "old", native_web_search: true } })).toEqual({
      ...CLAIMS_NOTHING,
      version: "old",
      native_web_search: true,
    });
  });
});
