import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import {
  FailWork,
  Healthcheck,
  StartHealthcheck,
  StopWork,
  UpdateWork,
  Work,
  WorkHeartbeat,
  WorkQueueStats,
} from "../../contract/work.ts";
import { inTransaction } from "../../db/transaction.ts";
import { getEnvironment } from "../../environments/environments.ts";
import type { Product } from "../../product.ts";
import { announce } from "../../sessions/announce.ts";
import { acknowledgeWork, heartbeat, LEASE_SECONDS } from "../../work/claims.ts";
import type { EndedClaim } from "../../work/end-claim.ts";
import { runHealthcheck } from "../../work/healthchecks.ts";
import { assertOwnWork } from "../../work/holder.ts";
import { pollWork } from "../../work/poll.ts";
import { queueStats } from "../../work/queue-stats.ts";
import { failWork, stopWork } from "../../work/stop-work.ts";
import { findWork, listWork, toWork, updateWorkMetadata } from "../../work/work-row.ts";
import type { Principal } from "../../workspaces/keys.ts";
import { answer, body, ERRORS, error, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { cut, decodeCreated, PageQuery, pageOf } from "../paging.ts";
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
      method: "get",
      path: "/v1/environments/{environment_id}/work/stats",
      tags: ["Work"],
      summary: "The queue in numbers",
      middleware: [requires(product.database, "api_key", "environment_key")],
      request: { params: environmentParams },
      responses: { 200: json("The numbers.", WorkQueueStats), ...ERRORS },
    }),
    async (context) => {
      const ref = environmentRef(context.get("principal"), context.req.valid("param"));
      assertOwnWork(context.get("principal"), ref);
      await getEnvironment(product.database, ref);
      return answer(await queueStats(product.database, ref));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}/work",
      tags: ["Work"],
      summary: "List work items",
      description: "Newest first, of every state.",
      middleware: [requires(product.database, "api_key")],
      request: { params: environmentParams, query: PageQuery },
      responses: { 200: json("A page of items.", pageOf(Work)), ...ERRORS },
    }),
    async (context) => {
      const ref = environmentRef(context.get("principal"), context.req.valid("param"));
      await getEnvironment(product.database, ref);
      const { limit, page } = context.req.valid("query");
      const found = await listWork(product.database, {
        ...ref,
        after: decodeCreated("work", ref, page),
        limit: limit + 1,
      });
      return answer(cut("work", ref, found, limit));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}/work/{work_id}",
      tags: ["Work"],
      summary: "Read a work item",
      middleware: [requires(product.database, "api_key")],
      request: { params: workParams },
      responses: { 200: json("The item; its secret is null.", Work), ...ERRORS },
    }),
    async (context) =>
      answer(toWork(await findWork(product.database, workRef(context.get("principal"), context.req.valid("param"))))),
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/work/{work_id}",
      tags: ["Work"],
      summary: "Update a work item's metadata",
      description: "Merges: a value sets its key, null removes it.",
      middleware: [requires(product.database, "api_key")],
      request: { params: workParams, body: body(UpdateWork) },
      responses: { 200: json("The item.", Work), ...ERRORS },
    }),
    async (context) => {
      const ref = workRef(context.get("principal"), context.req.valid("param"));
      const patch = context.req.valid("json").metadata ?? null;
      return answer(
        await inTransaction(product.database, (transaction) => updateWorkMetadata(transaction, ref, patch)),
      );
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

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/healthcheck",
      tags: ["Work"],
      summary: "Check the environment's workers",
      description:
        "Queues a work item of type healthcheck and waits for a worker to answer it. Each request is a check of its own.",
      middleware: [requires(product.database, "api_key")],
      request: {
        params: environmentParams,
        body: { required: false, content: { "application/json": { schema: StartHealthcheck } } },
      },
      responses: { 200: json("What a worker could do, and what to look at.", Healthcheck), ...ERRORS },
    }),
    async (context) => {
      const ref = environmentRef(context.get("principal"), context.req.valid("param"));
      const { wait_ms: waitMs } = StartHealthcheck.parse(context.req.valid("json") ?? {});
      return answer(await runHealthcheck(product, ref, { waitMs, signal: context.req.raw.signal }));
    },
  );

  /** The item that a claim's end leaves, once streams, workers and Step Functions have been told. */
  async function answerEnded(ended: EndedClaim): Promise<never> {
    await announce(product, ended.item.session_id ?? ended.item.environment_id, ended);
    return answer(toWork(ended.item));
  }
  return app;
}

interface Scoped {
  readonly workspaceId: string;
}

function environmentRef(principal: Scoped, params: { readonly environment_id: string }) {
  return { workspaceId: principal.workspaceId, environmentId: params.environment_id };
}

function workRef(principal: Scoped, params: { readonly environment_id: string; readonly work_id: string }) {
  return { ...environmentRef(principal, params), workId: params.work_id };
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
