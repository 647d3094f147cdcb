import type { Context, MiddlewareHandler } from "hono";
import { NotFound, PermissionDenied, Unauthenticated } from "../contract/errors.ts";
import type { Transaction } from "../db/transaction.ts";
import { findPrincipal, type Principal } from "../workspaces/keys.ts";

export interface Variables {
  readonly requestId: string;
  principal: Principal;
  /** The secret itself, only for a stream's later checks; never logged. */
  secret: string;
}
export type Env = { Variables: Variables };

/**
 * The secret of a request: `X-Api-Key` (SDK 0.x) or `Authorization: Bearer` (SDK 1.x). Both at once is refused, as the
 * hosted service does: it would be unclear on whose behalf the request is made.
 */
function secretOf(context: Context): string {
  const apiKey = context.req.header("x-api-key");
  const authorization = context.req.header("authorization");
  if (apiKey !== undefined && authorization !== undefined) {
    throw new Unauthenticated("Send the key in X-Api-Key or in Authorization, not in both.");
  }
  const bearer = authorization === undefined ? undefined : /^Bearer +(\S+)$/i.exec(authorization)?.[1];
  const secret = apiKey ?? bearer;
  if (secret === undefined || secret === "") {
    throw new Unauthenticated("No key was sent. Use X-Api-Key or Authorization: Bearer.");
  }
  return secret;
}

/**
 * Opens the request's principal and lets only the given kinds pass. `work` is the token of a claim that was
 * acknowledged; where `claim` is given too, it may be used before that.
 */
export function requires(
  database: Transaction,
  ...kinds: readonly (Principal["kind"] | "claim")[]
): MiddlewareHandler<Env> {
  return async (context, next) => {
    const secret = secretOf(context);
    const principal = await findPrincipal(database, secret);
    if (principal === null) {
      throw new Unauthenticated("The key is not valid.");
    }
    const workspace = context.req.header("anthropic-workspace-id");
    if (workspace !== undefined && workspace !== principal.workspaceId) {
      throw new PermissionDenied("anthropic-workspace-id: this key belongs to another workspace.");
    }
    if (!kinds.includes(principal.kind)) {
      throw new PermissionDenied(`This key (${principal.kind.replace("_", " ")}) may not be used here.`);
    }
    if (principal.kind === "work" && !principal.acknowledged && !kinds.includes("claim")) {
      throw new PermissionDenied(
        `Work ${principal.workId} is not acknowledged yet; its token opens nothing until then.`,
      );
    }
    context.set("principal", principal);
    context.set("secret", secret);
    await next();
  };
}

/**
 * Whether what was just read for this key may be shown to it. A worker begins a call that it is shown: asked after the
 * read, so that nothing which was committed after the end of its claim reaches it.
 */
export async function mayBeShown(
  database: Transaction,
  { principal, secret }: Pick<Variables, "principal" | "secret">,
): Promise<boolean> {
  return principal.kind !== "work" || (await findPrincipal(database, secret)) !== null;
}

/** A work token reaches its own session only; any other is as if it did not exist. */
export function assertOwnSession(principal: Principal, sessionId: string): void {
  if (principal.kind === "work" && principal.sessionId !== sessionId) {
    throw new NotFound(`There is no session ${sessionId}.`);
  }
}
