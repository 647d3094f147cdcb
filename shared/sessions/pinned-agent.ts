import { checkMcp, resolveModel, resolveTools } from "../agents/definition.ts";
import type { Agent, SessionAgent } from "../contract/agents.ts";
import type { AgentOverrides, UpdateSession } from "../contract/sessions.ts";

/** The copy of an agent that a session carries. A later version of the agent does not touch it. */
export function pinAgent(agent: Agent): SessionAgent {
  const { metadata: _metadata, created_at: _created, updated_at: _updated, archived_at: _archived, ...pinned } = agent;
  return pinned;
}

/** Left out: inherited. Null or empty: cleared. A value replaces what the agent has. */
export function withOverrides(pinned: SessionAgent, overrides: AgentOverrides): SessionAgent {
  return replaceTools(
    {
      ...pinned,
      // Another model for one session forgets the effort, even when the id is the same.
      model: overrides.model === undefined ? pinned.model : resolveModel(overrides.model, null),
      system: overrides.system === undefined ? pinned.system : overrides.system,
    },
    overrides,
  );
}

/** Replaces the tools, the servers, or both; what they say of each other must still hold. */
export function replaceTools(pinned: SessionAgent, change: NonNullable<UpdateSession["agent"]>): SessionAgent {
  const tools = change.tools === undefined ? pinned.tools : resolveTools(change.tools);
  const servers = change.mcp_servers === undefined ? pinned.mcp_servers : (change.mcp_servers ?? []);
  checkMcp(tools, servers);
  return { ...pinned, tools, mcp_servers: servers };
}
