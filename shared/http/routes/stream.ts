import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { InvalidRequest } from "../../contract/errors.ts";
import { AccessCheck } from "../../live/access-check.ts";
import { LedgerWatch } from "../../live/ledger-watch.ts";
import { openSessionStream } from "../../live/session-stream.ts";
import type { Product } from "../../product.ts";
import { assertSession } from "../../sessions/sessions.ts";
import { getThread } from "../../sessions/threads.ts";
import { noteEventsRead } from "../../work/claims.ts";
import { ERRORS, error } from "../answers.ts";
import { assertOwnSession, type Env, mayBeShown, requires } from "../auth.ts";
import { repeated } from "../paging.ts";
import { router } from "../router.ts";

export interface StreamOptions {
  /** How long a stream lives, in milliseconds: 5 minutes on AWS, where an abandoned stream keeps its Lambda; null without limit. */
  readonly streamLifeMs: number | null;
  /** Aborted when the server stops: streams then end with a hint to connect again, instead of being cut. */
  readonly stopping?: AbortSignal;
}

const StreamQuery = z.object({
  "event_deltas[]": repeated(z.enum(["agent.message", "agent.thinking"]))
    .optional()
    .openapi({
      type: "array",
      items: { type: "string", enum: ["agent.message", "agent.thinking"] },
      description: "Which events to preview while they are being written.",
    }),
  after: z.coerce.number().int().min(0).optional().openapi({ description: "A ledger position, as Last-Event-ID." }),
});

const RESPONSES = {
  200: { description: "The stream.", content: { "text/event-stream": { schema: z.string() } } },
  ...ERRORS,
  429: error("Too many streams are open with this key or of this session."),
} as const;

export function streamRoutes(product: Product, options: StreamOptions): OpenAPIHono<Env> {
  const app = router();
  const watch = new LedgerWatch(product.database);
  const access = new AccessCheck(product.database);

  const open = async (
    context: Context<Env>,
    asked: {
      readonly sessionId: string;
      readonly threadId: string | null;
      readonly query: z.infer<typeof StreamQuery>;
    },
  ): Promise<never> => {
    if (context.req.method === "HEAD") {
      // hono runs GET and drops the body without ending it; a stream that nobody reads would stay.
      return new Response(null, { headers: { "content-type": "text/event-stream; charset=utf-8" } }) as never;
    }
    const principal = context.get("principal");
    const secret = context.get("secret");
    const afterSeq = lastEventId(context.req.header("last-event-id")) ?? asked.query.after ?? null;
    const release = await product.streamPlaces.take({
      keyId: principal.kind === "work" ? principal.workId : principal.keyId,
      sessionId: asked.sessionId,
    });
    const stream = await openSessionStream(
      { database: product.database, live: product.live, watch, log: product.log },
      {
        sessionId: asked.sessionId,
        threadId: asked.threadId,
        afterSeq,
        previews: new Set(asked.query["event_deltas[]"] ?? []),
        lifeMs: options.streamLifeMs,
        stopping: options.stopping,
        stillAllowed: () => access.stillAllowed(secret),
        mayBeShown: () => mayBeShown(product.database, { principal, secret }),
        onEnd: () => void release(),
      },
    );
    return new Response(stream, {
      headers: {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
      },
    }) as never;
  };

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/events/stream",
      tags: ["Events"],
      summary: "Stream events",
      description:
        "Server-sent events from now on, or from after `Last-Event-ID` (or `after`). Every frame has an event name; `id:` is the ledger position. An event whose processed_at was stamped later comes again under the same id, without `id:`. A comment comes at least every 15 s. Ends with a `retry:` hint, or with session.deleted.",
      middleware: [requires(product.database, "api_key", "work")],
      request: { params: z.object({ session_id: z.string() }), query: StreamQuery },
      responses: RESPONSES,
    }),
    async (context) => {
      const principal = context.get("principal");
      const sessionId = context.req.valid("param").session_id;
      assertOwnSession(principal, sessionId);
      await assertSession(product.database, { workspaceId: principal.workspaceId, sessionId });
      await noteEventsRead(product.database, principal);
      return open(context, { sessionId, threadId: null, query: context.req.valid("query") });
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/sessions/{session_id}/threads/{thread_id}/stream",
      tags: ["Threads"],
      summary: "Stream a thread's events",
      description: "As the session's stream, of this thread only.",
      middleware: [requires(product.database, "api_key")],
      request: { params: z.object({ session_id: z.string(), thread_id: z.string() }), query: StreamQuery },
      responses: RESPONSES,
    }),
    async (context) => {
      const { session_id: sessionId, thread_id: threadId } = context.req.valid("param");
      await getThread(product.database, { workspaceId: context.get("principal").workspaceId, sessionId, threadId });
      return open(context, { sessionId, threadId, query: context.req.valid("query") });
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
