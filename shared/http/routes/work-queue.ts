import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { Healthcheck, StartHealthcheck, UpdateWork, Work, WorkQueueStats } from "../../contract/work.ts";
import { inTransaction } from "../../db/transaction.ts";
import { getEnvironment } from "../../environments/environments.ts";
import type { Product } from "../../product.ts";
import { runHealthcheck } from "../../work/healthchecks.ts";
import { assertOwnWork } from "../../work/holder.ts";
import { queueStats } from "../../work/queue-stats.ts";
import { findWork, listWork, toWork, updateWorkMetadata } from "../../work/work-row.ts";
import { answer, body, ERRORS, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { cut, decodeCreated, PageQuery, pageOf } from "../paging.ts";
import { environmentRef, workRef } from "../path-refs.ts";
import { router } from "../router.ts";

/** An operator's view of the worker protocol: what is queued, who serves it, and whether a worker is well. */
export function workQueueRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const environmentParams = z.object({ environment_id: z.string() });
  const workParams = environmentParams.extend({ work_id: z.string() });

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
  return app;
}
