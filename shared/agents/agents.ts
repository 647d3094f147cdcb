import type { z } from "@hono/zod-openapi";
import type { Agent, AgentDefinition, CreateAgent } from "../contract/agents.ts";
import { NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { resolveDefinition } from "./definition.ts";

interface Row {
  id: string;
  version: number;
  definition: string;
  created_at: Date;
  updated_at: Date;
  archived_at: Date | null;
}

function toAgent(row: Row): z.infer<typeof Agent> {
  const definition = JSON.parse(row.definition) as AgentDefinition;
  return {
    id: row.id,
    type: "agent",
    ...definition,
    tools: [...definition.tools],
    mcp_servers: [],
    skills: [],
    version: row.version,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    archived_at: row.archived_at?.toISOString() ?? null,
  };
}

/** Creates an agent at version 1. One statement, so all of it or nothing is there. */
export async function createAgent(
  database: Transaction,
  workspaceId: string,
  body: CreateAgent,
): Promise<z.infer<typeof Agent>> {
  const id = newId("agent");
  const definition = JSON.stringify(resolveDefinition(body));
  const { rows } = await database.query<{ created_at: Date }>(
    `with clock as (select date_trunc('milliseconds', now()) as instant),
          agent as (
            insert into agents (id, workspace_id, version, created_at, updated_at)
            select $1, $2, 1, instant, instant from clock returning id, created_at
          )
     insert into agent_versions (agent_id, version, workspace_id, definition, created_at)
     select id, 1, $2, $3, created_at from agent returning created_at`,
    [id, workspaceId, definition],
  );
  const createdAt = rows[0]?.created_at ?? new Date();
  return toAgent({ id, version: 1, definition, created_at: createdAt, updated_at: createdAt, archived_at: null });
}

/** One version of an agent, the newest when none is named. A foreign id is not found. */
export async function getAgent(
  database: Transaction,
  params: { readonly workspaceId: string; readonly agentId: string; readonly version?: number | undefined },
): Promise<z.infer<typeof Agent>> {
  const { rows } = await database.query<Row>(
    `select a.id, v.version, v.definition, a.created_at, v.created_at as updated_at, a.archived_at
       from agents a join agent_versions v on v.agent_id = a.id and v.version = coalesce($3, a.version)
      where a.id = $1 and a.workspace_id = $2`,
    [params.agentId, params.workspaceId, params.version ?? null],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(
      params.version === undefined
        ? `There is no agent ${params.agentId}.`
        : `There is no version ${params.version} of agent ${params.agentId}.`,
    );
  }
  return toAgent(row);
}
