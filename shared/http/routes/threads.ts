import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { SessionEvent } from "../../contract/events.ts";
import { SessionStatus, Thread } from "../../contract/sessions.ts";
import type { Product } from "../../product.ts";
import { assertSession } from "../../sessions/sessions.ts";
import { getThread, listThreads } from "../../sessions/threads.ts";
import { answer, ERRORS, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { answerEventPage } from "../event-page.ts";
import { cut, decodeCreated, PageQuery, pageOf, repeated } from "../paging.ts";
import { router } from "../router.ts";

const ThreadParams = z.object({ session_id: z.string(), thread_id: z.string() });

/** The threads of a session. A session of one agent has its primary thread only. */
export function threadRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key")];

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/threads",
      tags: ["Threads"],
      summary: "List threads",
      description: "The primary thread included, newest first.",
      middleware,
      request: {
        params: z.object({ session_id: z.string() }),
        query: PageQuery.extend({
          "statuses[]": repeated(SessionStatus)
            .optional()
            .openapi({ type: "array", items: { type: "string", enum: SessionStatus.options } }),
        }),
      },
      responses: { 200: json("A page of threads.", pageOf(Thread)), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      await assertSession(product.database, { workspaceId, sessionId });
      const query = context.req.valid("query");
      const filters = { workspaceId, sessionId, statuses: query["statuses[]"] };
      const after = decodeCreated("threads", filters, query.page);
      const found = await listThreads(product.database, { ...filters, after, limit: query.limit + 1 });
      return answer(cut("threads", filters, found, query.limit));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/threads/{thread_id}",
      tags: ["Threads"],
      summary: "Read a thread",
      middleware,
      request: { params: ThreadParams },
      responses: { 200: json("The thread.", Thread), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const { session_id: sessionId, thread_id: threadId } = context.req.valid("param");
      return answer(await getThread(product.database, { workspaceId, sessionId, threadId }));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/threads/{thread_id}/events",
      tags: ["Threads"],
      summary: "List a thread's events",
      description: "As the session's list, of this thread only.",
      middleware,
      request: {
        params: ThreadParams,
        query: PageQuery.extend({ limit: z.coerce.number().int().min(1).max(1000).default(1000) }),
      },
      responses: { 200: json("A page of events.", pageOf(SessionEvent)), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const { session_id: sessionId, thread_id: threadId } = context.req.valid("param");
      await getThread(product.database, { workspaceId, sessionId, threadId });
      const { limit, page } = context.req.valid("query");
      return answerEventPage(
        product.database,
        { sessionId, threadId, order: "asc", types: null, createdAt: {} },
        { limit, page },
      );
    },
  );
  return app;
}
