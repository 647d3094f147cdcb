import { createHash } from "node:crypto";
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { Conflict, InvalidRequest, NotFound } from "../contract/errors.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import type { Product } from "../product.ts";
import type { Env } from "./auth.ts";

/** Keys are the client's; this is what fits an index and a header. */
const MAX_KEY_LENGTH = 255;

export interface Answer<Effect> {
  /** JSON text of the answer's body. */
  readonly body: string;
  /** What is left to do after the commit; null when the answer is a repeat, whose effects have happened. */
  readonly effect: Effect | null;
}

/** A request's work, in its transaction. */
type Work<Effect> = (transaction: Transaction) => Promise<{
  readonly body: string;
  readonly effect: Effect;
  /** The session that the answer is of: when it is deleted nobody is told the answer again. */
  readonly sessionId?: string;
}>;

/**
 * Runs a creating request in one transaction, together with its `Idempotency-Key` if it has one: the same key and
 * request gets the first answer, the same key and another request is a 409. Of two at once the second waits for the
 * first (the primary key makes it) and repeats its answer; when the first fails, nothing of it is kept and the second
 * does the work.
 */
export async function idempotently<Effect>(
  product: Pick<Product, "database">,
  context: Context<Env>,
  work: Work<Effect>,
): Promise<Answer<Effect>> {
  const key = context.req.header("idempotency-key");
  if (key === undefined) {
    return inTransaction(product.database, work);
  }
  if (key === "" || key.length > MAX_KEY_LENGTH) {
    throw new InvalidRequest(`Idempotency-Key: must have 1 to ${MAX_KEY_LENGTH} characters.`);
  }
  const { workspaceId } = context.get("principal");
  const digest = createHash("sha256")
    .update(JSON.stringify([context.req.method, context.req.path]))
    .update(await context.req.text())
    .digest();
  return inTransaction(product.database, async (transaction) => {
    const { rowCount } = await transaction.query(
      "insert into idempotency_keys (workspace_id, key, request_digest) values ($1, $2, $3) on conflict do nothing",
      [workspaceId, key, digest],
    );
    if (rowCount === 0) {
      return { body: await firstAnswer(transaction, { workspaceId, key, digest }), effect: null };
    }
    const answer = await work(transaction);
    await transaction.query(
      "update idempotency_keys set response = $3, session_id = $4 where workspace_id = $1 and key = $2",
      [workspaceId, key, answer.body, answer.sessionId ?? null],
    );
    return answer;
  });
}

async function firstAnswer(
  transaction: Transaction,
  params: { workspaceId: string; key: string; digest: Buffer },
): Promise<string> {
  const { rows } = await transaction.query<{ request_digest: Buffer; response: string | null }>(
    "select request_digest, response from idempotency_keys where workspace_id = $1 and key = $2",
    [params.workspaceId, params.key],
  );
  const first = rows[0];
  if (first === undefined || !first.request_digest.equals(params.digest)) {
    throw new Conflict("Idempotency-Key: this key was used with another request.");
  }
  if (first.response === null) {
    throw new NotFound("Idempotency-Key: the session of this key's first request has been deleted.");
  }
  return first.response;
}

/** Answers are kept for a day; returns how many were dropped. */
export async function dropOldAnswers(database: Transaction): Promise<number> {
  const { rowCount } = await database.query(
    "delete from idempotency_keys where created_at < now() - interval '24 hours'",
  );
  return rowCount ?? 0;
}

/** The header, for the OpenAPI document; the value is checked where it is used. */
export const IdempotencyHeader = z.object({
  "idempotency-key": z.string().optional().openapi({
    description:
      "A key of your own, at most 255 characters: a repeat with the same key and body gets the first answer, for 24 hours.",
  }),
});
