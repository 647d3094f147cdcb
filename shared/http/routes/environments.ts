import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { CreateEnvironment, Environment } from "../../contract/environments.ts";
import { createEnvironment, getEnvironment } from "../../environments/environments.ts";
import type { Product } from "../../product.ts";
import { body, ERRORS, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { router } from "../router.ts";

export function environmentRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const key = requires(product.database, "api_key");

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/environments",
      tags: ["Environments"],
      summary: "Create an environment",
      middleware: [key],
      request: { body: body(CreateEnvironment) },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) =>
      context.json(
        await createEnvironment(product.database, context.get("principal").workspaceId, context.req.valid("json")),
        200,
      ),
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/environments/{environment_id}",
      tags: ["Environments"],
      summary: "Read an environment",
      middleware: [key],
      request: { params: z.object({ environment_id: z.string() }) },
      responses: { 200: json("The environment.", Environment), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      return context.json(
        await getEnvironment(product.database, {
          workspaceId,
          environmentId: context.req.valid("param").environment_id,
        }),
        200,
      );
    },
  );
  return app;
}
