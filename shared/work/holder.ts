import { Conflict, NotFound, PermissionDenied } from "../contract/errors.ts";
import type { Transaction } from "../db/transaction.ts";
import type { Principal } from "../workspaces/keys.ts";
import type { WorkRow } from "./work-row.ts";

/**
 * Who may do what to an item.
 *
 * An environment key may poll, read the queue's numbers, and acknowledge, stop and fail what it claimed. It may not
 * beat: a beat says that the process which serves the session lives, and that process has the claim's token, which is
 * fenced with the claim; a key that outlives every claim could keep an item that is another's by now. The official
 * SDKs' helpers (0.120.0 and 1.14.0) beat with the token whenever the secret has one, as ours always does, and
 * without one could not read the session either.
 */

/** An environment key reaches its own environment, a claim's token its own item; anything else is not found. */
export function assertOwnWork(
  principal: Principal,
  ref: { readonly environmentId: string; readonly workId?: string },
): void {
  const foreign =
    principal.kind !== "api_key" &&
    (principal.environmentId !== ref.environmentId ||
      (principal.kind === "work" && ref.workId !== undefined && principal.workId !== ref.workId));
  if (foreign) {
    throw new NotFound(
      `There is no ${ref.workId === undefined ? `environment ${ref.environmentId}` : `work ${ref.workId}`}.`,
    );
  }
}

/** Lets pass whoever holds the item: the claim's token, or the environment key that claimed it. Operators need not. */
export function mayUse(principal: Principal, item: Pick<WorkRow, "id" | "token_digest" | "claimed_by_key">): void {
  switch (principal.kind) {
    case "api_key":
      return;
    case "environment_key":
      if (item.claimed_by_key !== principal.keyId) {
        throw new PermissionDenied(`Work ${item.id} was not claimed with this key.`);
      }
      return;
    case "work":
      if (item.token_digest === null || !item.token_digest.equals(principal.digest)) {
        throw new Conflict(`Work ${item.id} has another owner now.`);
      }
  }
}

/**
 * Refuses a write of a claim that has ended since the request was let in. The caller holds the session's lock, under
 * which every acknowledged claim ends, so what passes here cannot be fenced before the commit.
 */
export async function assertHolds(transaction: Transaction, principal: Principal): Promise<void> {
  if (principal.kind !== "work") {
    return;
  }
  const { rowCount } = await transaction.query(
    "select 1 from work_items where id = $1 and token_digest = $2 and state in ('starting', 'active', 'stopping') and lease_expires_at > clock_timestamp()",
    [principal.workId, principal.digest],
  );
  if (rowCount !== 1) {
    throw new Conflict(`The claim of work ${principal.workId} has ended; nothing more is taken from it.`);
  }
}
