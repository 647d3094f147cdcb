import { NotFound } from "../contract/errors.ts";
import { newId, newSecret, secretDigest } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";

/** A key of a workspace, with which applications call. The secret is shown when it is made; the digest is kept. */
export interface ApiKey {
  readonly id: string;
  readonly type: "api_key";
  readonly workspace_id: string;
  readonly name: string;
  readonly created_at: string;
  /** From then on it opens nothing. */
  readonly revoked_at: string | null;
}

interface Row {
  id: string;
  workspace_id: string;
  name: string;
  created_at: Date;
  revoked_at: Date | null;
}

const COLUMNS = "id, workspace_id, name, created_at, revoked_at";

const toKey = (row: Row): ApiKey => ({
  id: row.id,
  type: "api_key",
  workspace_id: row.workspace_id,
  name: row.name,
  created_at: row.created_at.toISOString(),
  revoked_at: row.revoked_at?.toISOString() ?? null,
});

export async function createApiKey(
  database: Transaction,
  params: { readonly workspaceId: string; readonly name: string },
): Promise<ApiKey & { readonly secret: string }> {
  const secret = newSecret("sk-mango-api");
  const { rows } = await database.query<Row>(
    `insert into api_keys (id, workspace_id, name, digest)
     select $1, id, $3, $4 from workspaces where id = $2 returning ${COLUMNS}`,
    [newId("apikey"), params.workspaceId, params.name, secretDigest(secret)],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no workspace ${params.workspaceId}.`);
  }
  return { ...toKey(row), secret };
}

/** A workspace's keys, newest first. */
export async function listApiKeys(
  database: Transaction,
  params: { readonly workspaceId: string; readonly includeRevoked: boolean },
): Promise<ApiKey[]> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from api_keys where workspace_id = $1 and ($2 or revoked_at is null) order by created_at desc, id desc`,
    [params.workspaceId, params.includeRevoked],
  );
  return rows.map(toKey);
}

/** Ends a key: it opens nothing from the commit on. Again it changes nothing. */
export async function revokeApiKey(database: Transaction, keyId: string): Promise<ApiKey> {
  const { rows } = await database.query<Row>(
    `update api_keys set revoked_at = coalesce(revoked_at, now()) where id = $1 returning ${COLUMNS}`,
    [keyId],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no API key ${keyId}.`);
  }
  return toKey(row);
}
