import type { AgentDefinition, CreateAgent, ModelConfig } from "../contract/agents.ts";
import type { PolicyType, ResolvedTool, Tool } from "../contract/tools.ts";

/** The definition that a version pins: what was asked, with every default resolved. */
export function resolveDefinition(body: CreateAgent): AgentDefinition {
  return {
    name: body.name,
    description: body.description ?? null,
    system: body.system ?? null,
    model: resolveModel(body.model),
    tools: (body.tools ?? []).map(resolveTool),
    mcp_servers: [],
    skills: [],
    multiagent: null,
    metadata: body.metadata ?? {},
  };
}

function resolveModel(model: ModelConfig): AgentDefinition["model"] {
  if (typeof model === "string") {
    return { id: model, effort: { type: "high" } };
  }
  const effort = model.effort ?? "high";
  return { id: model.id, effort: typeof effort === "string" ? { type: effort } : effort };
}

/** Built-in tools are enabled and always allowed unless the toolset says otherwise; a tool's own config wins. */
function resolveTool(tool: Tool): ResolvedTool {
  if (tool.type !== "agent_toolset_20260401") {
    return tool as Extract<ResolvedTool, { type: "custom" }>;
  }
  const defaults = {
    enabled: tool.default_config?.enabled ?? true,
    permission_policy: {
      type: policyType(tool.default_config?.permission_policy?.type) ?? ("always_allow" as PolicyType),
    },
  };
  return {
    type: tool.type,
    default_config: defaults,
    configs: (tool.configs ?? []).map((config) => ({
      name: config.name,
      enabled: config.enabled ?? defaults.enabled,
      permission_policy: { type: policyType(config.permission_policy?.type) ?? defaults.permission_policy.type },
    })),
  };
}

function policyType(type: string | undefined): PolicyType | undefined {
  return type === "always_allow" || type === "always_ask" ? type : undefined;
}
