import type { Session, SessionStatus } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import { SESSION_COLUMNS, type SessionColumns, toSession } from "./sessions.ts";

export interface SessionFilters {
  readonly agentId?: string | undefined;
  readonly agentVersion?: number | undefined;
  readonly statuses?: readonly SessionStatus[] | undefined;
  /** Why they stand idle; finds the sessions that wait for a person. */
  readonly stopReasons?: readonly string[] | undefined;
  readonly includeArchived: boolean;
  readonly createdAt: {
    readonly gt?: Date | undefined;
    readonly gte?: Date | undefined;
    readonly lt?: Date | undefined;
    readonly lte?: Date | undefined;
  };
}

export interface SessionPosition {
  readonly createdAt: Date;
  readonly id: string;
}

export interface SessionPage extends SessionFilters {
  readonly workspaceId: string;
  readonly order: "asc" | "desc";
  /** Where the page starts: after the position, or before it, in the list's order. */
  readonly from: (SessionPosition & { readonly side: "after" | "before" }) | null;
  readonly limit: number;
}

/**
 * A page of sessions by creation, in the list's order. A page before a position is read backwards from it and turned
 * round, so that it holds the nearest sessions and not the first ones.
 */
export async function listSessions(database: Transaction, page: SessionPage): Promise<Session[]> {
  const backwards = page.from?.side === "before";
  const ascending = (page.order === "asc") !== backwards;
  const values: unknown[] = [page.workspaceId, page.limit];
  const where = ["workspace_id = $1", "deleting_at is null"];
  const add = (condition: (parameter: string) => string, value: unknown) => {
    if (value !== undefined && value !== null) {
      values.push(value);
      where.push(condition(`$${values.length}`));
    }
  };
  add((parameter) => `agent_id = ${parameter}`, page.agentId);
  add((parameter) => `agent_version = ${parameter}`, page.agentVersion);
  add((parameter) => `status = any(${parameter}::text[])`, page.statuses);
  add((parameter) => `stop_reason = any(${parameter}::text[])`, page.stopReasons);
  add((parameter) => `created_at > ${parameter}`, page.createdAt.gt);
  add((parameter) => `created_at >= ${parameter}`, page.createdAt.gte);
  add((parameter) => `created_at < ${parameter}`, page.createdAt.lt);
  add((parameter) => `created_at <= ${parameter}`, page.createdAt.lte);
  if (!page.includeArchived) {
    where.push("archived_at is null");
  }
  if (page.from !== null) {
    values.push(page.from.createdAt, page.from.id);
    where.push(
      `(created_at, id) ${ascending ? ">" : "<"} ($${values.length - 1}::timestamptz, $${values.length}::text)`,
    );
  }
  const direction = ascending ? "asc" : "desc";
  const { rows } = await database.query<SessionColumns>(
    `select ${SESSION_COLUMNS} from sessions where ${where.join(" and ")} order by created_at ${direction}, id ${direction} limit $2`,
    values,
  );
  const sessions = rows.map(toSession);
  return backwards ? sessions.reverse() : sessions;
}
