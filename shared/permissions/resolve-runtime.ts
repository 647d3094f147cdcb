import type { AgentDefinition } from "../contract/agents.ts";
import { WORKER_TOOLS } from "../contract/tools.ts";
import { BUILTIN_DECLARATIONS, TOOL_VERSION } from "./builtin-tools.ts";
import type { PinnedTool, SessionRuntime } from "./runtime.ts";

/**
 * Resolves, when a session is created, who executes each enabled tool under which policy. The result is pinned with
 * the session: neither a new version of the agent nor a rollout changes it.
 *
 * The web tools have no owner yet; an agent that enables them by name is refused at admission (contract/tools.ts),
 * and one that merely takes the toolset's defaults is not offered them.
 */
export function resolveRuntime(agent: AgentDefinition, provider: string): SessionRuntime {
  const tools: PinnedTool[] = agent.tools.flatMap((tool): PinnedTool[] => {
    if (tool.type === "custom") {
      const declaration = { name: tool.name, description: tool.description, input_schema: tool.input_schema };
      return [{ name: tool.name, owner: "client_custom", policy: null, declaration: JSON.stringify(declaration) }];
    }
    return WORKER_TOOLS.flatMap((name): PinnedTool[] => {
      const config = tool.configs.find((candidate) => candidate.name === name) ?? tool.default_config;
      return config.enabled
        ? [
            {
              name,
              owner: "client_self_hosted",
              policy: config.permission_policy.type,
              declaration: JSON.stringify(BUILTIN_DECLARATIONS[name]),
            },
          ]
        : [];
    });
  });
  return {
    agentName: agent.name,
    provider,
    system: agent.system,
    model: agent.model.id,
    tools,
    toolVersion: TOOL_VERSION,
    profileVersion: `${provider}/1`,
  };
}
