import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { FailWork, StopWork, Work, WorkHeartbeat } from "../../contract/work.ts";
import { inTransaction } from "../../db/transaction.ts";
import type { Product } from "../../product.ts";
import { announce } from "../../sessions/announce.ts";
import { acknowledgeWork, heartbeat, LEASE_SECONDS } from "../../work/claims.ts";
import type { EndedClaim } from "../../work/end-claim.ts";
import { assertOwnWork } from "../../work/holder.ts";
import { pollWork } from "../../work/poll.ts";
import { failWork, stopWork } from "../../work/stop-work.ts";
import { toWork } from "../../work/work-row.ts";
import type { Principal } from "../../workspaces/keys.ts";
import { answer, body, ERRORS, error, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { workRef } from "../path-refs.ts";
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
        keyId: keyOf(principal),
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
      description:
        "With the claim's token, or the environment key that claimed. Repeated before the first heartbeat it answers the same.",
      middleware: [requires(product.database, "environment_key", "work", "claim")],
      request: { params: workParams },
      responses: { 200: json("The item, starting.", Work), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal, context.req.valid("param"));
      assertOwnWork(principal, ref);
      return answer(await acknowledgeWork(product.database, ref, principal));
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}/heartbeat",
      tags: ["Work"],
      summary: "Keep the lease",
      description:
        "With the claim's token only. expected_last_heartbeat is the last answer's last_heartbeat, or NO_HEARTBEAT; left out, nothing is compared. 412 when somebody else holds the lease.",
      middleware: [requires(product.database, "work", "claim")],
      request: {
        params: workParams,
        query: z.object({
          expected_last_heartbeat: z.string().optional(),
          desired_ttl_seconds: z.coerce
            .number()
            .int()
            .min(0)
            .default(LEASE_SECONDS)
            .openapi({ description: "How long the lease shall last; brought between 10 and 300." }),
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
      const ref = workRef(principal, context.req.valid("param"));
      assertOwnWork(principal, ref);
      const query = context.req.valid("query");
      return answer(
        await heartbeat(product.database, ref, {
          expected: query.expected_last_heartbeat ?? null,
          ttlSeconds: query.desired_ttl_seconds,
          holder: digestOf(principal),
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
        "Without force the worker is asked to stop, and an item without a heartbeat goes back to the queue; with force, or as the worker's confirmation, the item is stopped. 409 when it is already. An environment key stops what it claimed.",
      middleware: [requires(product.database, "api_key", "environment_key", "work")],
      request: {
        params: workParams,
        body: { required: false, content: { "application/json": { schema: StopWork } } },
      },
      responses: { 200: json("The item.", Work), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal, context.req.valid("param"));
      assertOwnWork(principal, ref);
      const force = (context.req.valid("json") as z.infer<typeof StopWork> | undefined)?.force ?? false;
      return answerEnded(
        await inTransaction(product.database, (transaction) => stopWork(transaction, ref, { force, principal })),
      );
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}/fail",
      tags: ["Work"],
      summary: "Give an item up",
      description:
        "The worker could not prepare what the session needs. The item is stopped for good; the session's turn ends with session.error, its open calls are closed, and the session stays usable. With the claim's token, or the environment key that claimed.",
      middleware: [requires(product.database, "environment_key", "work")],
      request: { params: workParams, body: body(FailWork) },
      responses: { 200: json("The item, stopped.", Work), ...ERRORS },
    }),
    async (context) => {
      const principal = context.get("principal");
      const ref = workRef(principal, context.req.valid("param"));
      assertOwnWork(principal, ref);
      const { message } = context.req.valid("json");
      return answerEnded(
        await inTransaction(product.database, (transaction) => failWork(transaction, ref, { message, principal })),
      );
    },
  );

  /** The item that a claim's end leaves, once streams, workers and Step Functions have been told. */
  async function answerEnded(ended: EndedClaim): Promise<never> {
    await announce(product, ended.item.session_id ?? ended.item.environment_id, ended);
    return answer(toWork(ended.item));
  }
  return app;
}

/** The id of the environment key that the route has let in. */
function keyOf(principal: Principal): string {
  if (principal.kind !== "environment_key") {
    throw new Error(`A ${principal.kind} was let in where only an environment key is.`);
  }
  return principal.keyId;
}

/** The digest of the token that the route has let in. */
function digestOf(principal: Principal): Buffer {
  if (principal.kind !== "work") {
    throw new Error(`A ${principal.kind} was let in where only a claim's token is.`);
  }
  return principal.digest;
}
