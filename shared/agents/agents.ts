import type { Agent, AgentDefinition, CreateAgent, UpdateAgent } from "../contract/agents.ts";
import { Conflict, InvalidRequest, NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { Capabilities } from "../permissions/capabilities.ts";
import { assertWebPolicies } from "../permissions/web-tools.ts";
import { resolveDefinition, sameDefinition, updateDefinition } from "./definition.ts";

interface Row {
  id: string;
  version: number;
  definition: string;
  created_at: Date;
  updated_at: Date;
  archived_at: Date | null;
}

const SELECT = `select a.id, v.version, v.definition, a.created_at, v.created_at as updated_at, a.archived_at
                  from agents a join agent_versions v on v.agent_id = a.id`;

function toAgent(row: Row): Agent {
  return {
    id: row.id,
    type: "agent",
    ...(JSON.parse(row.definition) as AgentDefinition),
    version: row.version,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    archived_at: row.archived_at?.toISOString() ?? null,
  };
}

/** Creates an agent at version 1. One statement, so all of it or nothing is there. */
export async function createAgent(
  database: Transaction,
  params: { readonly workspaceId: string; readonly capabilities: Capabilities; readonly body: CreateAgent },
): Promise<Agent> {
  const id = newId("agent");
  const resolved = resolveDefinition(params.body);
  assertWebPolicies(resolved.tools, params.capabilities);
  const definition = JSON.stringify(resolved);
  const { rows } = await database.query<Row>(
    `with clock as (select date_trunc('milliseconds', clock_timestamp()) as instant),
          agent as (
            insert into agents (id, workspace_id, version, created_at, updated_at)
            select $1, $2, 1, instant, instant from clock returning id, created_at
          )
     insert into agent_versions (agent_id, version, workspace_id, definition, created_at)
     select id, 1, $2, $3, created_at from agent
     returning agent_id as id, version, definition, created_at, created_at as updated_at, null::timestamptz as archived_at`,
    [id, params.workspaceId, definition],
  );
  return toAgent(only(rows));
}

export interface AgentRef {
  readonly workspaceId: string;
  readonly agentId: string;
}

/** One version of an agent, the newest when none is named. A foreign id is not found. */
export async function getAgent(
  database: Transaction,
  params: AgentRef & { readonly version?: number | undefined },
): Promise<Agent> {
  const { rows } = await database.query<Row>(
    `${SELECT} and v.version = coalesce($3, a.version) where a.id = $1 and a.workspace_id = $2`,
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

/**
 * Changes an agent: a new version, or the same one when nothing changes. The row lock orders concurrent updates;
 * without a `version` the last one wins, with one the change is refused unless it is based on the newest.
 */
export async function updateAgent(
  transaction: Transaction,
  ref: AgentRef,
  params: { readonly capabilities: Capabilities; readonly change: UpdateAgent },
): Promise<Agent> {
  const { change } = params;
  const current = await lockAgent(transaction, ref);
  if (current.archived_at !== null) {
    throw new InvalidRequest(`Agent ${ref.agentId} is archived; it cannot be changed.`);
  }
  if (change.version !== undefined && change.version !== current.version) {
    throw new Conflict(
      `version: agent ${ref.agentId} is at version ${current.version}, not ${change.version}. Read it and apply the change again.`,
    );
  }
  const before = JSON.parse(current.definition) as AgentDefinition;
  const after = updateDefinition(before, change);
  // Tools that the change leaves alone were admitted before, perhaps by another deployment; a session looks again.
  if (change.tools !== undefined) {
    assertWebPolicies(after.tools, params.capabilities);
  }
  if (sameDefinition(before, after)) {
    return toAgent(current);
  }
  const { rows } = await transaction.query<Row>(
    `with clock as (select date_trunc('milliseconds', clock_timestamp()) as instant),
          agent as (update agents set version = version + 1, updated_at = instant from clock where id = $1 returning agents.id, version, created_at)
     insert into agent_versions (agent_id, version, workspace_id, definition, created_at)
     select agent.id, agent.version, $2, $3, instant from agent, clock
     returning agent_id as id, version, definition, (select created_at from agent), created_at as updated_at, null::timestamptz as archived_at`,
    [ref.agentId, ref.workspaceId, JSON.stringify(after)],
  );
  return toAgent(only(rows));
}

/** Makes an agent read-only; sessions that run it go on. Archiving again changes nothing. */
export async function archiveAgent(transaction: Transaction, ref: AgentRef): Promise<Agent> {
  await lockAgent(transaction, ref);
  await transaction.query(
    "update agents set archived_at = date_trunc('milliseconds', clock_timestamp()) where id = $1 and archived_at is null",
    [ref.agentId],
  );
  return getAgent(transaction, ref);
}

async function lockAgent(transaction: Transaction, ref: AgentRef): Promise<Row> {
  await transaction.query("select 1 from agents where id = $1 and workspace_id = $2 for update", [
    ref.agentId,
    ref.workspaceId,
  ]);
  // Read after the lock: the version that a waiter saw before it may be gone.
  const { rows } = await transaction.query<Row>(
    `${SELECT} and v.version = a.version where a.id = $1 and a.workspace_id = $2`,
    [ref.agentId, ref.workspaceId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no agent ${ref.agentId}.`);
  }
  return row;
}

export interface AgentPage {
  readonly workspaceId: string;
  readonly includeArchived: boolean;
  readonly createdAt: { readonly gte?: Date | undefined; readonly lte?: Date | undefined };
  readonly after: { readonly createdAt: Date; readonly id: string } | null;
  readonly limit: number;
}

/** A page of agents at their newest version, newest first. */
export async function listAgents(database: Transaction, page: AgentPage): Promise<Agent[]> {
  const { rows } = await database.query<Row>(
    `${SELECT} and v.version = a.version
      where a.workspace_id = $1 and ($2 or a.archived_at is null)
        and ($3::timestamptz is null or a.created_at >= $3) and ($4::timestamptz is null or a.created_at <= $4)
        and ($5::timestamptz is null or (a.created_at, a.id) < ($5, $6))
      order by a.created_at desc, a.id desc limit $7`,
    [
      page.workspaceId,
      page.includeArchived,
      page.createdAt.gte ?? null,
      page.createdAt.lte ?? null,
      page.after?.createdAt ?? null,
      page.after?.id ?? null,
      page.limit,
    ],
  );
  return rows.map(toAgent);
}

/** A page of an agent's versions, newest first. `before` is the version that the page before ended with. */
export async function listAgentVersions(
  database: Transaction,
  params: AgentRef & { readonly before: number | null; readonly limit: number },
): Promise<Agent[]> {
  await getAgent(database, params);
  const { rows } = await database.query<Row>(
    `${SELECT} where a.id = $1 and a.workspace_id = $2 and ($3::int is null or v.version < $3) order by v.version desc limit $4`,
    [params.agentId, params.workspaceId, params.before, params.limit],
  );
  return rows.map(toAgent);
}

function only<Row>(rows: readonly Row[]): Row {
  const row = rows[0];
  if (row === undefined) {
    throw new Error("The statement returned no row.");
  }
  return row;
}
