import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { InvalidRequest, NotFound } from "../../contract/errors.ts";
import { openSessionStream } from "../../live/session-stream.ts";
import type { Product } from "../../product.ts";
import { sessionExists } from "../../sessions/sessions.ts";
import { findPrincipal } from "../../workspaces/keys.ts";
import { ERRORS } from "../answers.ts";
import { assertOwnSession, type Env, requires } from "../auth.ts";
import { router } from "../router.ts";

export interface StreamOptions {
  /** How long a stream lives, in milliseconds: 5 minutes on AWS, where an abandoned stream keeps its Lambda; null without limit. */
  readonly streamLifeMs: number | null;
}

const Deltas = z
  .union([z.string(), z.array(z.string()).max(100)])
  .transform((values) => (typeof values === "string" ? [values] : values))
  .pipe(z.array(z.enum(["agent.message", "agent.thinking"])));

export function streamRoutes(product: Product, options: StreamOptions): OpenAPIHono<Env> {
  const app = router();

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/events/stream",
      tags: ["Events"],
      summary: "Stream events",
      description:
        "Server-sent events from now on, or from after `Last-Event-ID` (or `after`). Every frame has an event name; `id:` is the ledger position. event_deltas[] asks for previews of text under way.",
      middleware: [requires(product.database, "api_key", "work")],
      request: {
        params: z.object({ session_id: z.string() }),
        query: z.object({
          "event_deltas[]": Deltas.optional().openapi({
            type: "array",
            items: { type: "string", enum: ["agent.message", "agent.thinking"] },
          }),
          after: z.coerce
            .number()
            .int()
            .min(0)
            .optional()
            .openapi({ description: "A ledger position, as Last-Event-ID." }),
        }),
      },
      responses: {
        200: { description: "The stream.", content: { "text/event-stream": { schema: z.string() } } },
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
      const secret = context.get("secret");
      const stream = openSessionStream(product, {
        sessionId,
        afterSeq: lastEventId(context.req.header("last-event-id")) ?? query.after ?? null,
        previews: new Set(query["event_deltas[]"] ?? []),
        lifeMs: options.streamLifeMs,
        stillAllowed: async () => (await findPrincipal(product.database, secret)) !== null,
      });
      return new Response(stream, {
        headers: {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-cache, no-transform",
          "x-accel-buffering": "no",
        },
      }) as never;
    },
  );
  return app;
}

function lastEventId(header: string | undefined): number | undefined {
  if (header === undefined || header === "") {
    return undefined;
  }
  if (!/^\d{1,15}$/.test(header)) {
    throw new InvalidRequest("Last-Event-ID: must be the id of a frame of this stream.");
  }
  return Number(header);
}
