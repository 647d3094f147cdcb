import { ApiError, InvalidRequest, NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import { type Database, inTransaction, type Transaction } from "../db/transaction.ts";
import {
  createEnvironmentKey,
  type EnvironmentKeyRef,
  listEnvironmentKeys,
  revokeEnvironmentKey,
  rotateEnvironmentKey,
} from "../environments/environment-keys.ts";
import type { EnvironmentRef } from "../environments/environments.ts";
import { createApiKey, listApiKeys, revokeApiKey } from "../workspaces/api-keys.ts";
import { createWorkspace, getWorkspace, listWorkspaces, type Workspace } from "../workspaces/workspaces.ts";
import { type OperatorAnswer, type OperatorCommand, OperatorRequest, type OperatorThing } from "./commands.ts";

/** More keys than anybody reads; the API pages. */
const KEYS = 1000;

/**
 * Carries out an operator's command in one transaction, together with its audit record. Called by the command line on
 * a database, and by a deployed edition's function with the event that IAM let in: the payload is checked here.
 *
 * Not idempotent where it makes something: whoever lost the answer lists, and revokes what it does not know.
 */
export async function operate(database: Database, payload: unknown): Promise<OperatorAnswer> {
  const parsed = OperatorRequest.safeParse(payload);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const where = issue?.path.filter((part) => part !== "request").join(".");
    return failure(new InvalidRequest(`${where ? `${where}: ` : ""}${issue?.message ?? "The request is not valid."}`));
  }
  const { actor, request } = parsed.data;
  try {
    return { result: await inTransaction(database, (transaction) => carryOut(transaction, actor, request)) };
  } catch (error) {
    if (error instanceof ApiError) {
      return failure(error);
    }
    throw error;
  }
}

const failure = (error: ApiError): OperatorAnswer => ({ error: { type: error.type, message: error.message } });

async function carryOut(
  transaction: Transaction,
  actor: string,
  request: OperatorCommand,
): Promise<OperatorThing | OperatorThing[]> {
  const recorded = async <Thing extends OperatorThing>(thing: Thing): Promise<Thing> => {
    await transaction.query("insert into audit_records (id, subject, actor, action) values ($1, $2, $3, $4)", [
      newId("audit"),
      thing.id,
      actor,
      request.command,
    ]);
    return thing;
  };
  switch (request.command) {
    case "workspace.create":
      return recorded(await createWorkspace(transaction, request.name));
    case "workspace.list":
      return listWorkspaces(transaction);
    case "key.create": {
      const { id: workspaceId } = await workspaceOf(transaction, request.workspace_id);
      return recorded(await createApiKey(transaction, { workspaceId, name: request.name }));
    }
    case "key.list": {
      const { id: workspaceId } = await workspaceOf(transaction, request.workspace_id);
      return listApiKeys(transaction, { workspaceId, includeRevoked: request.include_revoked });
    }
    case "key.revoke":
      return recorded(await revokeApiKey(transaction, request.key_id));
    case "environment_key.create": {
      const ref = await environmentOf(transaction, request.environment_id);
      return recorded(await createEnvironmentKey(transaction, ref, request.name));
    }
    case "environment_key.list": {
      const ref = await environmentOf(transaction, request.environment_id);
      const includeRevoked = request.include_revoked;
      return listEnvironmentKeys(transaction, { ...ref, includeRevoked, after: null, limit: KEYS });
    }
    case "environment_key.revoke":
      return recorded(await revokeEnvironmentKey(transaction, await keyOf(transaction, request.key_id)));
    case "environment_key.rotate": {
      const ref = await keyOf(transaction, request.key_id);
      return recorded(await rotateEnvironmentKey(transaction, ref, { overlapSeconds: request.overlap_seconds }));
    }
  }
}

async function workspaceOf(transaction: Transaction, id: string | undefined): Promise<Workspace> {
  if (id !== undefined) {
    return getWorkspace(transaction, id);
  }
  return only(await listWorkspaces(transaction), "workspace", ({ id: one, name }) => `${one} (${name})`);
}

async function environmentOf(transaction: Transaction, id: string | undefined): Promise<EnvironmentRef> {
  const { rows } = await transaction.query<{ id: string; workspace_id: string; name: string }>(
    `select id, workspace_id, name from environments where ($1::text is null and archived_at is null) or id = $1
      order by created_at limit 20`,
    [id ?? null],
  );
  if (id !== undefined && rows.length === 0) {
    throw new NotFound(`There is no environment ${id}.`);
  }
  const found = only(rows, "environment", ({ id: one, name }) => `${one} (${name})`);
  return { workspaceId: found.workspace_id, environmentId: found.id };
}

async function keyOf(transaction: Transaction, keyId: string): Promise<EnvironmentKeyRef> {
  const { rows } = await transaction.query<{ workspace_id: string; environment_id: string }>(
    "select workspace_id, environment_id from environment_keys where id = $1",
    [keyId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no environment key ${keyId}.`);
  }
  return { workspaceId: row.workspace_id, environmentId: row.environment_id, keyId };
}

/** The one that there is; of several the operator must choose. */
function only<Thing>(things: readonly Thing[], noun: string, describe: (thing: Thing) => string): Thing {
  const [first, ...others] = things;
  if (first === undefined) {
    throw new NotFound(`There is no ${noun} yet.`);
  }
  if (others.length > 0) {
    throw new InvalidRequest(`Which ${noun}? There are several: ${things.map(describe).join(", ")}.`);
  }
  return first;
}
