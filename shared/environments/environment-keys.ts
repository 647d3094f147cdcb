import type { EnvironmentKey, EnvironmentKeyWithSecret } from "../contract/environment-keys.ts";
import { Conflict, NotFound } from "../contract/errors.ts";
import { newId, newSecret, secretDigest } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import type { EnvironmentRef } from "./environments.ts";

/**
 * An environment's keys. Each change is one statement. None of them may be repeated with an `Idempotency-Key`: the
 * first answer would have to be kept, and with it the secret. A lost answer is mended by rotating or revoking.
 */

interface Row {
  id: string;
  environment_id: string;
  name: string;
  created_at: Date;
  rotated_at: Date | null;
  revoked_at: Date | null;
}

const COLUMNS = "id, environment_id, name, created_at, rotated_at, revoked_at";

function toKey(row: Row): EnvironmentKey {
  return {
    id: row.id,
    type: "environment_key",
    environment_id: row.environment_id,
    name: row.name,
    created_at: row.created_at.toISOString(),
    rotated_at: row.rotated_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
  };
}

/** Which key of which environment. */
export interface EnvironmentKeyRef extends EnvironmentRef {
  readonly keyId: string;
}

/** Makes a key. An archived environment may have new ones: its sessions go on, and need workers. */
export async function createEnvironmentKey(
  database: Transaction,
  ref: EnvironmentRef,
  name: string,
): Promise<EnvironmentKeyWithSecret> {
  const secret = newSecret("sk-mango-env");
  const { rows } = await database.query<Row>(
    `insert into environment_keys (id, workspace_id, environment_id, name, digest, created_at)
     select $1, workspace_id, id, $4, $5, date_trunc('milliseconds', clock_timestamp())
       from environments where id = $2 and workspace_id = $3
     returning ${COLUMNS}`,
    [newId("ekey"), ref.environmentId, ref.workspaceId, name, secretDigest(secret)],
  );
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no environment ${ref.environmentId}.`, {
      details: { error_code: "environment_not_found" },
    });
  }
  return { ...toKey(row), secret };
}

/** A page of an environment's keys, newest first. */
export async function listEnvironmentKeys(
  database: Transaction,
  page: {
    readonly workspaceId: string;
    readonly environmentId: string;
    readonly includeRevoked: boolean;
    readonly after: { readonly createdAt: Date; readonly id: string } | null;
    readonly limit: number;
  },
): Promise<EnvironmentKey[]> {
  const { rows } = await database.query<Row>(
    `select ${COLUMNS} from environment_keys
      where environment_id = $1 and workspace_id = $2 and ($3 or revoked_at is null)
        and ($4::timestamptz is null or (created_at, id) < ($4, $5))
      order by created_at desc, id desc limit $6`,
    [
      page.environmentId,
      page.workspaceId,
      page.includeRevoked,
      page.after?.createdAt ?? null,
      page.after?.id ?? null,
      page.limit,
    ],
  );
  return rows.map(toKey);
}

/** Ends a key: it opens nothing from the commit on, and neither does the secret before its last rotation. */
export async function revokeEnvironmentKey(database: Transaction, ref: EnvironmentKeyRef): Promise<EnvironmentKey> {
  const { rows } = await database.query<Row>(
    `update environment_keys set revoked_at = coalesce(revoked_at, now()), previous_digest = null, previous_until = null
      where id = $1 and environment_id = $2 and workspace_id = $3 returning ${COLUMNS}`,
    [ref.keyId, ref.environmentId, ref.workspaceId],
  );
  return found(rows, ref);
}

/**
 * Gives a key a new secret. The key stays the same one: what was claimed with the old secret may be stopped with the
 * new. The old one works for `overlapSeconds` more; one that is still overlapping from a rotation before ends now.
 */
export async function rotateEnvironmentKey(
  database: Transaction,
  ref: EnvironmentKeyRef,
  params: { readonly overlapSeconds: number },
): Promise<EnvironmentKeyWithSecret> {
  const secret = newSecret("sk-mango-env");
  const { rows } = await database.query<Row>(
    `update environment_keys set digest = $4, rotated_at = now(),
            previous_digest = case when $5 > 0 then digest end,
            previous_until = case when $5 > 0 then now() + make_interval(secs => $5) end
      where id = $1 and environment_id = $2 and workspace_id = $3 and revoked_at is null returning ${COLUMNS}`,
    [ref.keyId, ref.environmentId, ref.workspaceId, secretDigest(secret), params.overlapSeconds],
  );
  if (rows.length === 0) {
    const { rows: revoked } = await database.query<Row>(
      `select ${COLUMNS} from environment_keys where id = $1 and environment_id = $2 and workspace_id = $3`,
      [ref.keyId, ref.environmentId, ref.workspaceId],
    );
    found(revoked, ref);
    throw new Conflict(`Key ${ref.keyId} is revoked; make a new one.`);
  }
  return { ...found(rows, ref), secret };
}

function found(rows: readonly Row[], ref: EnvironmentKeyRef): EnvironmentKey {
  const row = rows[0];
  if (row === undefined) {
    throw new NotFound(`There is no key ${ref.keyId} of this environment.`);
  }
  return toKey(row);
}
