import type { SessionAgent } from "../contract/agents.ts";
import { Unsupported } from "../contract/errors.ts";
import { type ResolvedTool, WEB_TOOLS, WORKER_TOOLS } from "../contract/tools.ts";
import { BUILTIN_DECLARATIONS, TOOL_VERSION } from "./builtin-tools.ts";
import type { PinnedTool, SessionRuntime } from "./runtime.ts";

/**
 * Resolves, when a session is created or its tools are replaced, who executes each enabled tool under which policy. The
 * result is pinned with the session: neither a new version of the agent nor a rollout changes it.
 *
 * Fails closed: a session whose agent was given a tool that nobody here can execute as its policy demands is refused
 * with a message that names the tool. The web tools are enabled by default in every toolset; only one that is enabled by
 * name counts as asked for, the others are not offered to the model.
 */
export function resolveRuntime(
  agent: SessionAgent,
  provider: string,
  environment: SessionRuntime["environment"],
): SessionRuntime {
  return {
    environment,
    agent: { id: agent.id, version: agent.version },
    agentName: agent.name,
    provider,
    system: agent.system,
    model: agent.model.id,
    tools: agent.tools.flatMap(pinTool),
    toolVersion: TOOL_VERSION,
    profileVersion: `${provider}/1`,
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
      return pinToolset(tool);
  }
}

function pinToolset(toolset: Extract<ResolvedTool, { type: "agent_toolset_20260401" }>): PinnedTool[] {
  const configOf = (name: string) => toolset.configs.find((config) => config.name === name);
  for (const name of WEB_TOOLS) {
    if (configOf(name)?.enabled) {
      throw new Unsupported(
        `agent.tools: ${name} is enabled, and the model endpoint's profile does not offer it. Set enabled to false.`,
      );
    }
  }
  return WORKER_TOOLS.flatMap((name): PinnedTool[] => {
    const { enabled, permission_policy: policy } = configOf(name) ?? toolset.default_config;
    if (!enabled) {
      return [];
    }
    return [
      {
        name,
        owner: "client_self_hosted",
        policy: policy.type,
        declaration: JSON.stringify(BUILTIN_DECLARATIONS[name]),
      },
    ];
  });
}
