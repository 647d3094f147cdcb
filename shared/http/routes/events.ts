import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { type AcceptedEvent, SendEvents } from "../../contract/client-events.ts";
import { PermissionDenied, Unauthenticated } from "../../contract/errors.ts";
import { SessionEvent } from "../../contract/events.ts";
import type { Product } from "../../product.ts";
import { admitEvents } from "../../sessions/admission.ts";
import { announce } from "../../sessions/announce.ts";
import { assertSession } from "../../sessions/sessions.ts";
import { noteEventsRead } from "../../work/claims.ts";
import { body, ERRORS, json, rawJson } from "../answers.ts";
import { assertOwnSession, type Env, mayBeShown, requires } from "../auth.ts";
import { answerEventPage } from "../event-page.ts";
import { IdempotencyHeader, idempotently } from "../idempotency.ts";
import { Instant, PageQuery, pageOf, repeated } from "../paging.ts";
import { router } from "../router.ts";

const instant = () =>
  Instant.optional().openapi({ type: "string", format: "date-time", description: "Compared with processed_at." });

const ListQuery = PageQuery.extend({
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(1000)
    .default(1000)
    .openapi({ description: "Events of a page, 1 to 1,000." }),
  order: z.enum(["asc", "desc"]).default("asc"),
  "types[]": repeated(z.string())
    .optional()
    .openapi({ type: "array", items: { type: "string" }, description: "Only events of these types." }),
  "created_at[gt]": instant(),
  "created_at[gte]": instant(),
  "created_at[lt]": instant(),
  "created_at[lte]": instant(),
});

export function eventRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key", "work")];
  const params = z.object({ session_id: z.string() });

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions/{session_id}/events",
      tags: ["Events"],
      summary: "Send events",
      description: "Accepts all events of the batch or none. An accepted event is durable when the answer arrives.",
      middleware,
      request: { params, headers: IdempotencyHeader, body: body(SendEvents) },
      responses: { 200: json("The events as stored.", z.object({ data: z.array(SessionEvent) })), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const { workspaceId } = principal;
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      const events = context.req.valid("json").events as AcceptedEvent[];
      if (principal.kind === "work" && events.some((event) => event.type !== "user.tool_result")) {
        throw new PermissionDenied("A worker may send user.tool_result only.");
      }
      const made = await idempotently(product, context, async (transaction) => {
        const admitted = await admitEvents(transaction, { workspaceId, sessionId, events, sender: principal });
        return { body: `{"data":[${admitted.events.join(",")}]}`, effect: admitted, sessionId };
      });
      if (made.effect !== null) {
        await announce(product, sessionId, made.effect);
      }
      return rawJson(made.body);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/events",
      tags: ["Events"],
      summary: "List events",
      description: "By processed_at, queued events last (first when descending), then by receipt.",
      middleware,
      request: { params, query: ListQuery },
      responses: { 200: json("A page of events.", pageOf(SessionEvent)), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      await assertSession(product.database, { workspaceId: principal.workspaceId, sessionId });
      await noteEventsRead(product.database, principal);
      const query = context.req.valid("query");
      const createdAt = {
        gt: query["created_at[gt]"],
        gte: query["created_at[gte]"],
        lt: query["created_at[lt]"],
        lte: query["created_at[lte]"],
      };
      const filters = { sessionId, threadId: null, order: query.order, types: query["types[]"] ?? null, createdAt };
      const page = await answerEventPage(product.database, filters, { limit: query.limit, page: query.page });
      if (!(await mayBeShown(product.database, context.var))) {
        throw new Unauthenticated("The key is not valid any more.");
      }
      return page;
    },
  );
  return app;
}
