import { Unsupported } from "../contract/errors.ts";
import {
  type ResolvedSwitches,
  type ResolvedTool,
  type ResolvedToolset,
  WEB_TOOLS,
  type WebTool,
} from "../contract/tools.ts";
import type { Capabilities } from "./capabilities.ts";

/** Who runs a web tool: the server itself where it can, else the provider where its profile has it; null: nobody. */
export function webToolOwner(
  name: WebTool,
  { managed, profile }: Pick<Capabilities, "managed" | "profile">,
): "platform_managed" | "provider_native" | null {
  if (managed.includes(name)) {
    return "platform_managed";
  }
  return profile[NATIVE_CAPABILITY[name]] ? "provider_native" : null;
}

/** The capability of the endpoint's profile that a native web tool needs. */
export const NATIVE_CAPABILITY = {
  web_search: "native_web_search",
  web_fetch: "native_web_fetch",
} as const satisfies Record<WebTool, keyof Capabilities["profile"]>;

/** What a toolset says of one of its tools: the tool's own config, or the default. */
export function switchesOf(toolset: ResolvedToolset, name: string): ResolvedSwitches {
  return toolset.configs.find((config) => config.name === name) ?? toolset.default_config;
}

/**
 * Refuses a web tool that is enabled with ask or auto where nobody could hold its calls back: it runs inside the model
 * request. A toolset's default counts like a policy of the tool's own.
 *
 * @throws Unsupported naming the tool and what can be done
 */
export function assertWebPolicies(tools: readonly ResolvedTool[], capabilities: Pick<Capabilities, "managed">): void {
  for (const toolset of tools) {
    if (toolset.type !== "agent_toolset_20260401") {
      continue;
    }
    for (const name of WEB_TOOLS) {
      const { enabled, permission_policy: policy } = switchesOf(toolset, name);
      if (enabled && policy.type !== "always_allow" && !capabilities.managed.includes(name)) {
        throw new Unsupported(
          `tools: ${name} runs inside the model request, where no call can be held back: ${policy.type} is not possible. ` +
            `Disable ${name} (enabled: false) or give it always_allow.`,
        );
      }
    }
  }
}
