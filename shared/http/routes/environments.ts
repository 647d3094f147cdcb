import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { CreateEnvironment, DeletedEnvironment, Environment, UpdateEnvironment } from "../../contract/environments.ts";
import { inTransaction } from "../../db/transaction.ts";
import {
  archiveEnvironment,
  createEnvironment,
  deleteEnvironment,
  getEnvironment,
  listEnvironments,
  updateEnvironment,
} from "../../environments/environments.ts";
import type { Product } from "../../product.ts";
import { answer, body, ERRORS, json, rawJson } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { IdempotencyHeader, idempotently } from "../idempotency.ts";
import { cut, decodeCreated, IncludeArchived, PageQuery, pageOf } from "../paging.ts";
import { environmentRef } from "../path-refs.ts";
import { router } from "../router.ts";

const EnvironmentParam = z.object({ environment_id: z.string() });

export function environmentRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key")];

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments",
      tags: ["Environments"],
      summary: "Create an environment",
      description: "A place where tools run: your own workers (self_hosted, the default).",
      middleware,
      request: { headers: IdempotencyHeader, body: body(CreateEnvironment) },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const environment = context.req.valid("json");
      const made = await idempotently(product, context, async (transaction) => ({
        body: JSON.stringify(await createEnvironment(transaction, workspaceId, environment)),
        effect: null,
      }));
      return rawJson(made.body);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments",
      tags: ["Environments"],
      summary: "List environments",
      description: "Newest first.",
      middleware,
      request: { query: PageQuery.extend({ include_archived: IncludeArchived }) },
      responses: { 200: json("A page of environments.", pageOf(Environment)), ...ERRORS },
    }),
    async (context) => {
      const query = context.req.valid("query");
      const filters = { workspaceId: context.get("principal").workspaceId, includeArchived: query.include_archived };
      const after = decodeCreated("environments", filters, query.page);
      const found = await listEnvironments(product.database, { ...filters, after, limit: query.limit + 1 });
      return answer(cut("environments", filters, found, query.limit));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}",
      tags: ["Environments"],
      summary: "Read an environment",
      middleware,
      request: { params: EnvironmentParam },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) =>
      answer(
        await getEnvironment(product.database, environmentRef(context.get("principal"), context.req.valid("param"))),
      ),
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}",
      tags: ["Environments"],
      summary: "Update an environment",
      description:
        "Fields left out stay; metadata is merged, null or an empty string deletes a key. The kind cannot change.",
      middleware,
      request: { params: EnvironmentParam, body: body(UpdateEnvironment) },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) => {
      const environment = environmentRef(context.get("principal"), context.req.valid("param"));
      const change = context.req.valid("json");
      return answer(
        await inTransaction(product.database, (transaction) => updateEnvironment(transaction, environment, change)),
      );
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/archive",
      tags: ["Environments"],
      summary: "Archive an environment",
      description: "No new session can use it; existing ones go on.",
      middleware,
      request: { params: EnvironmentParam },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) =>
      answer(
        await archiveEnvironment(
          product.database,
          environmentRef(context.get("principal"), context.req.valid("param")),
        ),
      ),
  );

  app.openapi(
    createRoute({
      method: "delete",
      path: "/v1/environments/{environment_id}",
      tags: ["Environments"],
      summary: "Delete an environment",
      description: "Only one that no session refers to (409 otherwise). Its keys go with it.",
      middleware,
      request: { params: EnvironmentParam },
      responses: { 200: json("What was deleted.", DeletedEnvironment), ...ERRORS },
    }),
    async (context) => {
      const environment = environmentRef(context.get("principal"), context.req.valid("param"));
      await inTransaction(product.database, (transaction) => deleteEnvironment(transaction, environment));
      return answer({ id: environment.environmentId, type: "environment_deleted" });
    },
  );
  return app;
}
