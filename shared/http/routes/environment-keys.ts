import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import {
  CreateEnvironmentKey,
  EnvironmentKey,
  EnvironmentKeyWithSecret,
  RotateEnvironmentKey,
} from "../../contract/environment-keys.ts";
import {
  createEnvironmentKey,
  listEnvironmentKeys,
  revokeEnvironmentKey,
  rotateEnvironmentKey,
} from "../../environments/environment-keys.ts";
import { getEnvironment } from "../../environments/environments.ts";
import type { Product } from "../../product.ts";
import { answer, body, ERRORS, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { cut, decodeCreated, IncludeArchived, PageQuery, pageOf } from "../paging.ts";
import { environmentRef, keyRef } from "../path-refs.ts";
import { router } from "../router.ts";

/** The keys that workers of an environment poll with. */
export function environmentKeyRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key")];
  const environmentParams = z.object({ environment_id: z.string() });
  const keyParams = environmentParams.extend({ key_id: z.string() });

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/keys",
      tags: ["Environment keys"],
      summary: "Create an environment key",
      description:
        "Its secret is shown in this answer only. An Idempotency-Key is not honoured: the secret would have to be kept.",
      middleware,
      request: { params: environmentParams, body: body(CreateEnvironmentKey) },
      responses: { 200: json("The key with its secret.", EnvironmentKeyWithSecret), ...ERRORS },
    }),
    async (context) => {
      const ref = environmentRef(context.get("principal"), context.req.valid("param"));
      return answer(await createEnvironmentKey(product.database, ref, context.req.valid("json").name));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}/keys",
      tags: ["Environment keys"],
      summary: "List environment keys",
      description: "Newest first, without secrets.",
      middleware,
      request: {
        params: environmentParams,
        query: PageQuery.extend({
          include_revoked: IncludeArchived.openapi({
            type: "boolean",
            description: "Revoked ones too; false by default.",
          }),
        }),
      },
      responses: { 200: json("A page of keys.", pageOf(EnvironmentKey)), ...ERRORS },
    }),
    async (context) => {
      const ref = environmentRef(context.get("principal"), context.req.valid("param"));
      await getEnvironment(product.database, ref);
      const { limit, page, include_revoked: includeRevoked } = context.req.valid("query");
      const filters = { ...ref, includeRevoked };
      const after = decodeCreated("environment_keys", filters, page);
      const found = await listEnvironmentKeys(product.database, { ...filters, after, limit: limit + 1 });
      return answer(cut("environment_keys", filters, found, limit));
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/keys/{key_id}/revoke",
      tags: ["Environment keys"],
      summary: "Revoke an environment key",
      description: "It opens nothing from now on. What was claimed with it goes on with the claim's own token.",
      middleware,
      request: { params: keyParams },
      responses: { 200: json("The key, revoked.", EnvironmentKey), ...ERRORS },
    }),
    async (context) =>
      answer(
        await revokeEnvironmentKey(product.database, keyRef(context.get("principal"), context.req.valid("param"))),
      ),
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments/{environment_id}/keys/{key_id}/rotate",
      tags: ["Environment keys"],
      summary: "Rotate an environment key",
      description: "Gives the key a new secret, shown in this answer only.",
      middleware,
      request: {
        params: keyParams,
        body: { required: false, content: { "application/json": { schema: RotateEnvironmentKey } } },
      },
      responses: { 200: json("The key with its new secret.", EnvironmentKeyWithSecret), ...ERRORS },
    }),
    async (context) => {
      const ref = keyRef(context.get("principal"), context.req.valid("param"));
      const { overlap_seconds: overlapSeconds } = RotateEnvironmentKey.parse(context.req.valid("json") ?? {});
      return answer(await rotateEnvironmentKey(product.database, ref, { overlapSeconds }));
    },
  );
  return app;
}
