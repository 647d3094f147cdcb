import { NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";

/** A tenant: everything else belongs to one. */
export interface Workspace {
  readonly id: string;
  readonly type: "workspace";
  readonly name: string;
  readonly created_at: string;
}

interface Row {
  id: string;
  name: string;
  created_at: Date;
}

const toWorkspace = (row: Row): Workspace => ({
  id: row.id,
  type: "workspace",
  name: row.name,
  created_at: row.created_at.toISOString(),
});

export async function createWorkspace(database: Transaction, name: string): Promise<Workspace> {
  const { rows } = await database.query<Row>(
    "insert into workspaces (id, name) values ($1, $2) returning id, name, created_at",
    [newId("wrkspc"), name],
  );
  return toWorkspace(one(rows, name));
}

/** All of them, oldest first: an operator has few. */
export async function listWorkspaces(database: Transaction): Promise<Workspace[]> {
  const { rows } = await database.query<Row>("select id, name, created_at from workspaces order by created_at, id");
  return rows.map(toWorkspace);
}

export async function getWorkspace(database: Transaction, id: string): Promise<Workspace> {
  const { rows } = await database.query<Row>("select id, name, created_at from workspaces where id = $1", [id]);
  return toWorkspace(one(rows, id));
}

function one(rows: readonly Row[], which: string): Row {
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no workspace ${which}.`);
  }
  return row;
}
