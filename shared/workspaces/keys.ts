import { newId, secretDigest } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";

/** Who calls, and what that lets them reach. */
export type Principal =
  | { readonly kind: "api_key"; readonly workspaceId: string; readonly keyId: string }
  | {
      readonly kind: "environment_key";
      readonly workspaceId: string;
      readonly environmentId: string;
      readonly keyId: string;
    }
  /** The token of one claim of one work item. */
  | {
      readonly kind: "work";
      readonly workspaceId: string;
      readonly environmentId: string;
      /** Null for a health check: its token opens no session. */
      readonly sessionId: string | null;
      readonly workId: string;
      readonly digest: Buffer;
      /** Before the ack a token opens nothing but the ack. */
      readonly acknowledged: boolean;
    };

/** Who holds the secret; null when it opens nothing (any more). One look-up, whatever the kind of secret. */
export async function findPrincipal(database: Transaction, secret: string): Promise<Principal | null> {
  const digest = secretDigest(secret);
  const { rows } = await database.query<{
    kind: Principal["kind"];
    workspace_id: string;
    id: string;
    environment_id: string | null;
    session_id: string | null;
    acknowledged: boolean | null;
  }>(
    `select 'api_key' as kind, workspace_id, id, null as environment_id, null as session_id, null::boolean as acknowledged
       from api_keys where digest = $1 and revoked_at is null
     union all
     select 'environment_key', workspace_id, id, environment_id, null, null
       from environment_keys where digest = $1 and revoked_at is null
     union all
     select 'environment_key', workspace_id, id, environment_id, null, null
       from environment_keys where previous_digest = $1 and previous_until > now() and revoked_at is null
     union all
     select 'work', workspace_id, id, environment_id, session_id, state <> 'queued'
       from work_items where token_digest = $1 and state in ('queued', 'starting', 'active', 'stopping')
        and (lease_expires_at is null or lease_expires_at > now())`,
    [digest],
  );
  const row = rows[0];
  if (row === undefined) {
    return null;
  }
  const { workspace_id: workspaceId, id } = row;
  switch (row.kind) {
    case "api_key":
      return { kind: "api_key", workspaceId, keyId: id };
    case "environment_key":
      return { kind: "environment_key", workspaceId, environmentId: row.environment_id ?? "", keyId: id };
    case "work":
      return {
        kind: "work",
        workspaceId,
        environmentId: row.environment_id ?? "",
        sessionId: row.session_id,
        workId: id,
        digest,
        acknowledged: row.acknowledged === true,
      };
  }
}

/**
 * Makes this secret the one key of that name: what a start does with the key of its settings. A key that was set before
 * opens nothing any more, above all not the well-known one of development.
 */
export async function setApiKey(
  database: Transaction,
  params: { readonly workspaceId: string; readonly name: string; readonly secret: string },
): Promise<void> {
  await database.query(
    `with others as (
       update api_keys set revoked_at = now() where workspace_id = $2 and name = $3 and digest <> $4 and revoked_at is null
     )
     insert into api_keys (id, workspace_id, name, digest) values ($1, $2, $3, $4)
     on conflict (digest) do update set revoked_at = null`,
    [newId("apikey"), params.workspaceId, params.name, secretDigest(params.secret)],
  );
}

export async function addEnvironmentKey(
  database: Transaction,
  params: {
    readonly workspaceId: string;
    readonly environmentId: string;
    readonly name: string;
    readonly secret: string;
  },
): Promise<string> {
  const id = newId("ekey");
  await database.query(
    "insert into environment_keys (id, workspace_id, environment_id, name, digest) values ($1, $2, $3, $4, $5)",
    [id, params.workspaceId, params.environmentId, params.name, secretDigest(params.secret)],
  );
  return id;
}

export async function ensureWorkspace(
  database: Transaction,
  params: { readonly id: string; readonly name: string },
): Promise<void> {
  await database.query("insert into workspaces (id, name) values ($1, $2) on conflict (id) do nothing", [
    params.id,
    params.name,
  ]);
}

/** Revokes the environment's keys of that name; they open nothing from the next request on. */
export async function revokeEnvironmentKeys(
  database: Transaction,
  params: { readonly environmentId: string; readonly name: string },
): Promise<void> {
  await database.query(
    "update environment_keys set revoked_at = now() where environment_id = $1 and name = $2 and revoked_at is null",
    [params.environmentId, params.name],
  );
}
