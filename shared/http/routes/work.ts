import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { Work, WorkHeartbeat } from "../../contract/work.ts";
import { inTransaction } from "../../db/transaction.ts";
import type { Product } from "../../product.ts";
import { lockSession } from "../../sessions/session-row.ts";
import { ensureWork } from "../../work/ensure-work.ts";
import { hasOpenWorkerCalls } from "../../work/open-calls.ts";
import { pollWork } from "../../work/poll.ts";
import {
  acknowledgeWork,
  assertOwnWork,
  heartbeat,
  LEASE_SECONDS,
  sessionOfWork,
  stopWork,
} from "../../work/work-items.ts";
import { answer, ERRORS, error, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { router } from "../router.ts";

/** The worker protocol: how a self-hosted worker gets its work and keeps it. */
export function workRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const environmentParams = z.object({ environment_id: z.string() });
  const workParams = z.object({ environment_id: z.string(), work_id: z.string() });

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}/work/poll",
      tags: ["Work"],
      summary: "Claim a work item",
      description: "Answers JSON null when nothing is queued. May wait up to 20 s for an item.",
      middleware: [requires(product.database, "environment_key")],
      request: {
        params: environmentParams,
        query: z.object({
          block_ms: z.coerce
            .number()
            .int()
            .min(0)
            .max(20_000)
            .default(0)
            .openapi({ description: "How long to wait for an item, in milliseconds." }),
          reclaim_older_than_ms: z.coerce.number().int().min(0).max(3_600_000).default(5000).openapi({
            description: "A claim that was not acknowledged for this long is handed out again.",
          }),
        }),
      },
      responses: { 200: json("The claimed item with its secret, or null.", Work.nullable()), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const environmentId = context.req.valid("param").environment_id;
      assertOwnWork(principal, { environmentId });
      const query = context.req.valid("query");
      const work = await pollWork(product, {
        workspaceId: principal.workspaceId,
        environmentId,
        workerId: context.req.header("anthropic-worker-id") ?? null,
        reclaimOlderThanMs: query.reclaim_older_than_ms,
        blockMs: query.block_ms,
        signal: context.req.raw.signal,
      });
      return answer(work);
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}/ack",
      tags: ["Work"],
      summary: "Acknowledge a claim",
      middleware: [requires(product.database, "environment_key", "work")],
      request: { params: workParams },
      responses: { 200: json("The item, starting.", Work), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal.workspaceId, context.req.valid("param"));
      assertOwnWork(principal, ref);
      return answer(await acknowledgeWork(product.database, ref));
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}/heartbeat",
      tags: ["Work"],
      summary: "Keep the lease",
      description:
        "expected_last_heartbeat is the last answer's last_heartbeat, or NO_HEARTBEAT. 412 when somebody else holds the lease.",
      middleware: [requires(product.database, "environment_key", "work")],
      request: {
        params: workParams,
        query: z.object({
          expected_last_heartbeat: z.string(),
          desired_ttl_seconds: z.coerce.number().int().min(10).max(300).default(LEASE_SECONDS),
        }),
      },
      responses: {
        200: json("The lease.", WorkHeartbeat),
        ...ERRORS,
        412: error("Somebody else holds the lease; details.current_state says how it stands."),
      },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal.workspaceId, context.req.valid("param"));
      assertOwnWork(principal, ref);
      const query = context.req.valid("query");
      const holder = principal.kind === "work" ? principal.digest : null;
      return answer(
        await heartbeat(product.database, ref, {
          expected: query.expected_last_heartbeat,
          ttlSeconds: query.desired_ttl_seconds,
          holder,
        }),
      );
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}/stop",
      tags: ["Work"],
      summary: "Stop an item",
      description:
        "Without force the worker is asked to stop; with force, or as the worker's confirmation, the item is stopped. 409 when it is already.",
      middleware: [requires(product.database, "api_key", "environment_key", "work")],
      request: {
        params: workParams,
        body: {
          required: false,
          content: { "application/json": { schema: z.strictObject({ force: z.boolean().optional() }) } },
        },
      },
      responses: { 200: json("The item.", Work), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal.workspaceId, context.req.valid("param"));
      assertOwnWork(principal, ref);
      const force = (context.req.valid("json") as { force?: boolean } | undefined)?.force ?? false;
      const { work, queued } = await inTransaction(product.database, async (transaction) => {
        // The session's lock comes first, as in every transaction that holds both.
        const session = await lockSession(transaction, { sessionId: await sessionOfWork(transaction, ref) });
        const stopped = await stopWork(transaction, ref, { force });
        // A call that a worker leaves open needs somebody else, in the same transaction; the new item becomes claimable
        // when this one has stopped.
        const needed =
          session !== null && stopped.state !== "queued" && (await hasOpenWorkerCalls(transaction, session.id));
        return { work: stopped, queued: needed && (await ensureWork(transaction, session)) };
      });
      if (queued || work.state === "queued") {
        void product.live.publish(ref.environmentId, { type: "wake" });
      }
      return context.json(work);
    },
  );
  return app;
}

function workRef(workspaceId: string, params: { readonly environment_id: string; readonly work_id: string }) {
  return { workspaceId, environmentId: params.environment_id, workId: params.work_id };
}
