import type { AgentDefinition, CreateAgent, McpServer, ModelConfig, UpdateAgent } from "../contract/agents.ts";
import { InvalidRequest } from "../contract/errors.ts";
import { patchMetadata } from "../contract/schema.ts";
import type { PolicyType, ResolvedSwitches, ResolvedTool, Tool } from "../contract/tools.ts";

/** What an agent is: pure rules of what was asked, what it resolves to, and what an update makes of it. */

/** The definition that a version pins: what was asked, with every default resolved. */
export function resolveDefinition(body: CreateAgent): AgentDefinition {
  return checked({
    name: body.name,
    description: body.description ?? null,
    system: body.system ?? null,
    model: resolveModel(body.model, null),
    tools: (body.tools ?? []).map(resolveTool),
    mcp_servers: body.mcp_servers ?? [],
    skills: [],
    multiagent: null,
    execution_identity: { type: "service_account" },
    metadata: body.metadata ?? {},
  });
}

/** What a change makes of a definition: left out stays, null clears, arrays are replaced, metadata is merged. */
export function updateDefinition(current: AgentDefinition, change: UpdateAgent): AgentDefinition {
  const or = <T>(changed: T | undefined, kept: T): T => (changed === undefined ? kept : changed);
  return checked({
    ...current,
    name: or(change.name, current.name),
    // An empty text clears, as null does.
    description: or(change.description, current.description) || null,
    system: or(change.system, current.system) || null,
    model: change.model === undefined ? current.model : resolveModel(change.model, current.model),
    tools: change.tools === undefined ? current.tools : resolveTools(change.tools),
    mcp_servers: change.mcp_servers === undefined ? current.mcp_servers : (change.mcp_servers ?? []),
    metadata: patchMetadata(current.metadata, change.metadata),
  });
}

/** Whether two definitions say the same: then an update makes no new version. Metadata has no order. */
export function sameDefinition(one: AgentDefinition, other: AgentDefinition): boolean {
  const canonical = (definition: AgentDefinition) =>
    JSON.stringify({
      ...definition,
      metadata: Object.entries(definition.metadata).sort(([a], [b]) => (a < b ? -1 : 1)),
    });
  return canonical(one) === canonical(other);
}

export function resolveTools(tools: readonly Tool[] | null | undefined): ResolvedTool[] {
  return (tools ?? []).map(resolveTool);
}

/** A new model forgets the effort of the old one; the same model keeps it unless another is named. */
export function resolveModel(model: ModelConfig, current: AgentDefinition["model"] | null): AgentDefinition["model"] {
  const { id, effort } = typeof model === "string" ? { id: model, effort: null } : model;
  if (effort == null) {
    return { id, effort: current?.id === id ? current.effort : { type: "high" } };
  }
  return { id, effort: typeof effort === "string" ? { type: effort } : effort };
}

function resolveTool(tool: Tool): ResolvedTool {
  switch (tool.type) {
    case "custom":
      return tool;
    case "agent_toolset_20260401": {
      const defaults = resolveSwitches(tool.default_config ?? {}, {
        enabled: true,
        permission_policy: { type: "always_allow" },
      });
      return {
        type: tool.type,
        default_config: defaults,
        configs: (tool.configs ?? []).map((config) => ({ ...resolveConfig(config, defaults), type: config.name })),
      };
    }
    case "mcp_toolset": {
      const defaults = resolveSwitches(tool.default_config ?? {}, {
        enabled: true,
        permission_policy: { type: "always_ask" },
      });
      const configs = (tool.configs ?? []).map((config) => resolveConfig(config, defaults));
      return { type: tool.type, mcp_server_name: tool.mcp_server_name, default_config: defaults, configs };
    }
  }
}

interface Switches {
  readonly enabled?: boolean | null | undefined;
  readonly permission_policy?: { readonly type: PolicyType } | null | undefined;
}

function resolveSwitches(asked: Switches, defaults: ResolvedSwitches): ResolvedSwitches {
  return {
    enabled: asked.enabled ?? defaults.enabled,
    permission_policy: asked.permission_policy ?? defaults.permission_policy,
  };
}

/** A tool's config with its switches resolved; what else it says (domains, a location) stays as it is. */
function resolveConfig<Config extends Switches & { readonly name: string }>(
  config: Config,
  defaults: ResolvedSwitches,
) {
  const { type: _sameAsName, ...rest } = config as Config & { readonly type?: string };
  const said = Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null));
  return { ...said, name: config.name, ...resolveSwitches(config, defaults) };
}

/** MCP servers and toolsets name each other: a server that nobody uses is a mistake, and so is a toolset without one. */
function checked(definition: AgentDefinition): AgentDefinition {
  checkMcp(definition.tools, definition.mcp_servers);
  return definition;
}

export function checkMcp(tools: readonly ResolvedTool[], servers: readonly McpServer[]): void {
  const used = new Set(tools.flatMap((tool) => (tool.type === "mcp_toolset" ? [tool.mcp_server_name] : [])));
  for (const [index, server] of servers.entries()) {
    if (!used.has(server.name)) {
      throw new InvalidRequest(`mcp_servers[${index}].name: no mcp_toolset uses ${server.name}.`);
    }
  }
  for (const name of used) {
    if (!servers.some((server) => server.name === name)) {
      throw new InvalidRequest(`tools: mcp_toolset names the MCP server ${name}, which mcp_servers does not define.`);
    }
  }
}
