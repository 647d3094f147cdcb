import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import {
  CreateSession,
  DeletedSession,
  Session,
  SessionStatus,
  StopReasonType,
  UpdateSession,
} from "../../contract/sessions.ts";
import { inTransaction } from "../../db/transaction.ts";
import { relayAfterCommit } from "../../outbox/relay.ts";
import { capabilitiesOf } from "../../permissions/capabilities.ts";
import type { Product } from "../../product.ts";
import { announce } from "../../sessions/announce.ts";
import { archiveSession, deleteSession, updateSession } from "../../sessions/change-session.ts";
import { listSessions } from "../../sessions/list-sessions.ts";
import { createSession, getSession } from "../../sessions/sessions.ts";
import { answer, body, ERRORS, json, rawJson } from "../answers.ts";
import { assertOwnSession, type Env, requires } from "../auth.ts";
import { IdempotencyHeader, idempotently } from "../idempotency.ts";
import { IncludeArchived, Instant, PageQuery, repeated } from "../paging.ts";
import { router } from "../router.ts";
import { pageFrom, pageLinks } from "../session-pages.ts";

const SessionParam = z.object({ session_id: z.string() });
const instant = () => Instant.optional().openapi({ type: "string", format: "date-time" });

const ListQuery = PageQuery.extend({
  agent_id: z.string().optional(),
  agent_version: z.coerce.number().int().min(1).optional(),
  deployment_id: z.string().optional().openapi({ description: "Deployments are not built yet: no session has one." }),
  memory_store_id: z
    .string()
    .optional()
    .openapi({ description: "Memory stores are not built yet: no session has one." }),
  "statuses[]": repeated(SessionStatus)
    .optional()
    .openapi({ type: "array", items: { type: "string", enum: SessionStatus.options } }),
  "stop_reasons[]": repeated(StopReasonType)
    .optional()
    .openapi({
      type: "array",
      items: { type: "string", enum: StopReasonType.options },
      description: "Why idle sessions stand still: requires_action finds those that wait for a person or a result.",
    }),
  include_archived: IncludeArchived,
  order: z.enum(["asc", "desc"]).default("desc"),
  "created_at[gt]": instant(),
  "created_at[gte]": instant(),
  "created_at[lt]": instant(),
  "created_at[lte]": instant(),
});

const SessionPageAnswer = z.object({
  data: z.array(Session),
  next_page: z.string().nullable(),
  prev_page: z.string().nullable(),
});

export function sessionRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key")];

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions",
      tags: ["Sessions"],
      summary: "Create a session",
      description: "Pins the agent as it is now. With initial_events the session is created running.",
      middleware,
      request: { headers: IdempotencyHeader, body: body(CreateSession) },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const asked = context.req.valid("json");
      const made = await idempotently(product, context, async (transaction) => {
        const { session, admitted } = await createSession(transaction, {
          workspaceId,
          capabilities: capabilitiesOf(product),
          body: asked,
        });
        const sessionId = session.id;
        return { body: JSON.stringify(session), effect: { sessionId, admitted }, sessionId };
      });
      if (made.effect?.admitted != null) {
        await announce(product, made.effect.sessionId, made.effect.admitted);
      }
      return rawJson(made.body);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions",
      tags: ["Sessions"],
      summary: "List sessions",
      description:
        "By creation, newest first unless order says otherwise. Pages in both directions; a cursor keeps its order.",
      middleware,
      request: { query: ListQuery },
      responses: { 200: json("A page of sessions.", SessionPageAnswer), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const query = context.req.valid("query");
      const createdAt = {
        gt: query["created_at[gt]"],
        gte: query["created_at[gte]"],
        lt: query["created_at[lt]"],
        lte: query["created_at[lte]"],
      };
      const from = pageFrom({ workspaceId, order: query.order, createdAt }, query.page);
      if (query.deployment_id !== undefined || query.memory_store_id !== undefined) {
        return answer({ data: [], next_page: null, prev_page: null });
      }
      const found = await listSessions(product.database, {
        workspaceId,
        agentId: query.agent_id,
        agentVersion: query.agent_version,
        statuses: query["statuses[]"],
        stopReasons: query["stop_reasons[]"],
        includeArchived: query.include_archived,
        createdAt,
        order: query.order,
        from,
        limit: query.limit + 1,
      });
      return answer(pageLinks({ workspaceId, order: query.order }, found, query.limit, from));
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
      request: { params: SessionParam },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      return answer(await getSession(product.database, { workspaceId: principal.workspaceId, sessionId }));
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions/{session_id}",
      tags: ["Sessions"],
      summary: "Update a session",
      description:
        "Title, metadata (merged, null deletes a key), and while idle the session's own tools and MCP servers. A change emits session.updated and applies from the next turn.",
      middleware,
      request: { params: SessionParam, body: body(UpdateSession) },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const ref = sessionRef(context.get("principal"), context.req.valid("param"));
      const params = { managed: capabilitiesOf(product).managed, change: context.req.valid("json") };
      const session = await inTransaction(product.database, (transaction) => updateSession(transaction, ref, params));
      void product.live.publish(ref.sessionId, { type: "wake" });
      return answer(session);
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions/{session_id}/archive",
      tags: ["Sessions"],
      summary: "Archive a session",
      description:
        "Terminates it; its history stays readable. A running session is refused: interrupt it and wait for idle.",
      middleware,
      request: { params: SessionParam },
      responses: { 200: json("The session.", Session), ...ERRORS },
    }),
    async (context) => {
      const ref = sessionRef(context.get("principal"), context.req.valid("param"));
      const { session, outbox } = await inTransaction(product.database, (transaction) =>
        archiveSession(transaction, ref),
      );
      void product.live.publish(ref.sessionId, { type: "wake" });
      await relayAfterCommit(product, outbox);
      return answer(session);
    },
  );

  app.openapi(
    createRoute({
      method: "delete",
      path: "/v1/sessions/{session_id}",
      tags: ["Sessions"],
      summary: "Delete a session",
      description:
        "Its streams end with session.deleted. A running session is refused: interrupt it and wait for idle.",
      middleware,
      request: { params: SessionParam },
      responses: { 200: json("What was deleted.", DeletedSession), ...ERRORS },
    }),
    async (context) => {
      const ref = sessionRef(context.get("principal"), context.req.valid("param"));
      const { outbox } = await inTransaction(product.database, (transaction) => deleteSession(transaction, ref));
      void product.live.publish(ref.sessionId, { type: "deleted" });
      await relayAfterCommit(product, outbox);
      return answer({ id: ref.sessionId, type: "session_deleted" });
    },
  );
  return app;
}

function sessionRef(principal: { readonly workspaceId: string }, params: { readonly session_id: string }) {
  return { workspaceId: principal.workspaceId, sessionId: params.session_id };
}
