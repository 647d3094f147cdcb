import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { CreateSession, Session } from "../../contract/sessions.ts";
import { inTransaction } from "../../db/transaction.ts";
import { relayAfterCommit } from "../../outbox/relay.ts";
import type { Product } from "../../product.ts";
import { createSession, getSession } from "../../sessions/sessions.ts";
import { body, ERRORS, json } from "../answers.ts";
import { assertOwnSession, type Env, requires } from "../auth.ts";
import { router } from "../router.ts";

export function sessionRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions",
      tags: ["Sessions"],
      summary: "Create a session",
      description: "Pins the agent as it is now. With initial_events the session is created running.",
      middleware: [requires(product.database, "api_key")],
      request: { body: body(CreateSession) },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const { session, admitted } = await inTransaction(product.database, (transaction) =>
        createSession(transaction, { workspaceId, provider: product.model.provider, body: context.req.valid("json") }),
      );
      if (admitted !== null) {
        if (admitted.wakeEnvironment !== null) {
          void product.live.publish(admitted.wakeEnvironment, { type: "wake" });
        }
        await relayAfterCommit(product, admitted.outbox);
      }
      return context.json(session, 200);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}",
      tags: ["Sessions"],
      summary: "Read a session",
      description: "Usage and stats are as of now. A worker may read its own session.",
      middleware: [requires(product.database, "api_key", "work")],
      request: { params: z.object({ session_id: z.string() }) },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      return context.json(await getSession(product.database, { workspaceId: principal.workspaceId, sessionId }), 200);
    },
  );
  return app;
}
