import type { WebFetchSettings, WebSearchSettings, WebTool } from "../contract/tools.ts";
import type { CapabilityProfile } from "./capability-profile.ts";

/** The names of the tools that the model is offered: those whose results others send, and the provider's own. */
interface Offered {
  readonly client: readonly string[];
  readonly server: readonly string[];
}

/**
 * The declaration of a web tool that the provider runs inside the request, as JSON text: the pinned version with what
 * the agent says of the tool.
 *
 * Calls are direct ones always: from within the provider's code execution they would need its container, which no
 * profile states. `response_inclusion` is left at the provider's default, everything, unless the profile guarantees that
 * what is left out need not be sent back.
 */
export function nativeDeclaration(
  name: WebTool,
  settings: WebFetchSettings & WebSearchSettings,
  { profile, offered }: { readonly profile: CapabilityProfile; readonly offered: Offered },
): string {
  const own = name === "web_search" ? searchFields(settings) : fetchFields(settings, profile, offered);
  const fields = {
    type: profile.provider_tool_versions[name],
    name,
    allowed_callers: ["direct"],
    allowed_domains: settings.allowed_domains,
    blocked_domains: settings.blocked_domains,
    ...own,
    response_inclusion: profile.native_response_inclusion ? "excluded" : undefined,
  };
  // A null of the agent's says the same as nothing, and not every version takes one.
  return JSON.stringify(fields, (_key, value: unknown) => (value === null ? undefined : value));
}

function searchFields({ user_location }: WebSearchSettings): object {
  return { user_location };
}

function fetchFields(settings: WebFetchSettings, profile: CapabilityProfile, offered: Offered): object {
  const { user_input, client_tool_results, server_tool_results } = settings.url_sources ?? {};
  return {
    max_content_tokens: settings.max_content_tokens,
    citations: profile.native_citations ? { enabled: true } : undefined,
    url_sources: settings.url_sources && {
      user_input,
      client_tool_results: onlyOffered(client_tool_results, offered.client),
      server_tool_results: onlyOffered(server_tool_results, offered.server),
    },
  };
}

type Rule = NonNullable<WebFetchSettings["url_sources"]>["client_tool_results"];

/** Without the tools that are not declared: the provider refuses their names, and they have no results. */
function onlyOffered(rule: Rule, offered: readonly string[]): Rule {
  if (rule == null || !("tools" in rule)) {
    return rule;
  }
  const tools = rule.tools.filter(({ name }) => offered.includes(name));
  if (tools.length > 0) {
    return { ...rule, tools };
  }
  return { type: rule.type === "only" ? "none" : "all" };
}
