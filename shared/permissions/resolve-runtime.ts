import type { SessionAgent } from "../contract/agents.ts";
import { Unsupported } from "../contract/errors.ts";
import { type ResolvedTool, type ResolvedToolset, WEB_TOOLS, type WebTool, WORKER_TOOLS } from "../contract/tools.ts";
import { nativeDeclaration } from "../model/native-web-tools.ts";
import { BUILTIN_DECLARATIONS, TOOL_VERSION, WEB_FETCH_DECLARATION } from "./builtin-tools.ts";
import type { Capabilities } from "./capabilities.ts";
import type { PinnedTool, SessionRuntime } from "./runtime.ts";
import { assertWebPolicies, NATIVE_CAPABILITY, switchesOf, webToolOwner } from "./web-tools.ts";

/**
 * Resolves, when a session is created or its tools are replaced, who executes each enabled tool under which policy. The
 * result is pinned with the session, together with the endpoint's capability profile: neither a new version of the agent
 * nor a rollout changes it.
 *
 * Fails closed: a session whose agent was given a tool that nobody here can execute as its policy demands is refused
 * with a message that names the tool and the capability. The web tools are enabled by default in every toolset; only one
 * that is enabled by name counts as asked for, the others are offered where somebody can run them.
 *
 * @throws Unsupported
 */
export function resolveRuntime(
  agent: SessionAgent,
  capabilities: Capabilities,
  environment: SessionRuntime["environment"],
): SessionRuntime {
  assertWebPolicies(agent.tools, capabilities);
  const ordinary = agent.tools.flatMap(pinTool);
  const tools = [...ordinary, ...agent.tools.flatMap((tool) => pinWebTools(tool, capabilities, ordinary))];
  return {
    environment,
    agent: { id: agent.id, version: agent.version },
    agentName: agent.name,
    provider: capabilities.provider,
    system: agent.system,
    model: agent.model.id,
    tools,
    toolVersion: [TOOL_VERSION, ...tools.flatMap((tool) => tool.version ?? [])].join("+"),
    profileVersion: `${capabilities.provider}/${capabilities.profile.version}`,
    profile: capabilities.profile,
  };
}

function pinTool(tool: ResolvedTool): PinnedTool[] {
  switch (tool.type) {
    case "custom": {
      const declaration = { name: tool.name, description: tool.description, input_schema: tool.input_schema };
      return [{ name: tool.name, owner: "client_custom", policy: null, declaration: JSON.stringify(declaration) }];
    }
    case "mcp_toolset":
      if (tool.default_config.enabled || tool.configs.some((config) => config.enabled)) {
        throw new Unsupported(
          `agent.tools: the MCP toolset of ${tool.mcp_server_name} is enabled, and MCP is not supported by this server yet.`,
        );
      }
      return [];
    case "agent_toolset_20260401":
      return WORKER_TOOLS.flatMap((name): PinnedTool[] => {
        const { enabled, permission_policy: policy } = switchesOf(tool, name);
        const declaration = JSON.stringify(BUILTIN_DECLARATIONS[name]);
        return enabled ? [{ name, owner: "client_self_hosted", policy: policy.type, declaration }] : [];
      });
  }
}

function pinWebTools(tool: ResolvedTool, capabilities: Capabilities, ordinary: readonly PinnedTool[]): PinnedTool[] {
  if (tool.type !== "agent_toolset_20260401") {
    return [];
  }
  const enabled = WEB_TOOLS.filter((name) => switchesOf(tool, name).enabled);
  const owners = enabled.map((name) => [name, webToolOwner(name, capabilities)] as const);
  const offered = {
    client: [...ordinary.map(({ name }) => name), ...ownedBy(owners, "platform_managed")],
    server: ownedBy(owners, "provider_native"),
  };
  return owners.flatMap(([name, owner]) => pinWebTool(tool, { name, owner, offered, capabilities }) ?? []);
}

function pinWebTool(
  toolset: ResolvedToolset,
  its: {
    readonly name: WebTool;
    readonly owner: ReturnType<typeof webToolOwner>;
    readonly offered: Parameters<typeof nativeDeclaration>[2]["offered"];
    readonly capabilities: Capabilities;
  },
): PinnedTool | null {
  const { name, owner, offered } = its;
  const { profile } = its.capabilities;
  const config = toolset.configs.find((candidate) => candidate.name === name);
  const policy = switchesOf(toolset, name).permission_policy.type;
  switch (owner) {
    case "platform_managed": {
      const { allowed_domains, blocked_domains, max_content_tokens, url_sources } = config ?? {};
      const webFetch = { allowed_domains, blocked_domains, max_content_tokens, url_sources };
      return { name, owner, policy, declaration: JSON.stringify(WEB_FETCH_DECLARATION), webFetch };
    }
    case "provider_native": {
      const declaration = nativeDeclaration(name, config ?? {}, { profile, offered });
      return { name, owner, policy, declaration, version: profile.provider_tool_versions[name] };
    }
    case null:
      if (config !== undefined) {
        throw new Unsupported(
          `agent.tools: ${name} is enabled, and the model endpoint's capability profile (${profile.version}) ` +
            `does not have ${NATIVE_CAPABILITY[name]}. Set enabled to false.`,
        );
      }
      return null;
  }
}

function ownedBy(owners: readonly (readonly [WebTool, string | null])[], owner: string): WebTool[] {
  return owners.flatMap(([name, its]) => (its === owner ? [name] : []));
}
