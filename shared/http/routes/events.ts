import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { type AcceptedEvent, SendEvents } from "../../contract/client-events.ts";
import { NotFound, PermissionDenied } from "../../contract/errors.ts";
import { inTransaction } from "../../db/transaction.ts";
import { type LedgerEvent, publicEvent } from "../../ledger/event.ts";
import { type EventPosition, eventPage } from "../../ledger/read.ts";
import { relayAfterCommit } from "../../outbox/relay.ts";
import type { Product } from "../../product.ts";
import { admitEvents } from "../../sessions/admission.ts";
import { sessionExists } from "../../sessions/sessions.ts";
import { body, ERRORS, json, rawJson } from "../answers.ts";
import { assertOwnSession, type Env, requires } from "../auth.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { router } from "../router.ts";

/** An event as clients see it; the fields depend on the type. */
const SessionEvent = z
  .looseObject({ id: z.string(), type: z.string(), processed_at: z.string().nullable() })
  .openapi("SessionEvent", { description: "processed_at is null while an input is queued." });

const Types = z
  .union([z.string(), z.array(z.string())])
  .transform((types) => (typeof types === "string" ? [types] : types));

const ListQuery = z.object({
  limit: z.coerce.number().int().min(1).max(1000).default(1000),
  page: z.string().optional(),
  order: z.enum(["asc", "desc"]).default("asc"),
  "types[]": Types.optional().openapi({
    description: "Only events of these types.",
    type: "array",
    items: { type: "string" },
  }),
});

export function eventRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const key = requires(product.database, "api_key", "work");
  const params = z.object({ session_id: z.string() });

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/sessions/{session_id}/events",
      tags: ["Events"],
      summary: "Send events",
      description: "Accepts all events of the batch or none. An accepted event is durable when the answer arrives.",
      middleware: [key],
      request: { params, body: body(SendEvents) },
      responses: { 200: json("The events as stored.", z.object({ data: z.array(SessionEvent) })), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      const events = context.req.valid("json").events as AcceptedEvent[];
      if (principal.kind === "work" && events.some((event) => event.type !== "user.tool_result")) {
        throw new PermissionDenied("A worker may send user.tool_result only.");
      }
      const admitted = await inTransaction(product.database, (transaction) =>
        admitEvents(transaction, { workspaceId: principal.workspaceId, sessionId, events }),
      );
      void product.live.publish(sessionId, { type: "wake" });
      if (admitted.wakeEnvironment !== null) {
        void product.live.publish(admitted.wakeEnvironment, { type: "wake" });
      }
      await relayAfterCommit(product, admitted.outbox);
      return rawJson(`{"data":[${admitted.events.join(",")}]}`) as never;
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/events",
      tags: ["Events"],
      summary: "List events",
      description: "By processed_at, queued events last (first when descending), then by receipt.",
      middleware: [key],
      request: { params, query: ListQuery },
      responses: {
        200: json("A page of events.", z.object({ data: z.array(SessionEvent), next_page: z.string().nullable() })),
        ...ERRORS,
      },
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      if (!(await sessionExists(product.database, { workspaceId: principal.workspaceId, sessionId }))) {
        throw new NotFound(`There is no session ${sessionId}.`);
      }
      const query = context.req.valid("query");
      const types = query["types[]"] ?? null;
      const filters = { sessionId, order: query.order, types };
      const after = query.page === undefined ? null : readPosition(decodeCursor("events", filters, query.page));
      const found = await eventPage(product.database, {
        sessionId,
        order: query.order,
        types,
        after,
        limit: query.limit + 1,
      });
      const page = found.slice(0, query.limit);
      const last = page.at(-1);
      const next =
        found.length > page.length && last !== undefined ? encodeCursor("events", filters, positionOf(last)) : null;
      return rawJson(`{"data":[${page.map(publicEvent).join(",")}],"next_page":${JSON.stringify(next)}}`) as never;
    },
  );
  return app;
}

function positionOf(event: LedgerEvent): [string | null, number] {
  return [event.processedAt?.toISOString() ?? null, event.seq];
}

function readPosition(value: unknown): EventPosition {
  const [processedAt, seq] = value as [string | null, number];
  return { processedAt: processedAt === null ? null : new Date(processedAt), seq };
}
