import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { createAgent, getAgent } from "../../agents/agents.ts";
import { Agent, CreateAgent } from "../../contract/agents.ts";
import type { Product } from "../../product.ts";
import { body, ERRORS, json } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { router } from "../router.ts";

export function agentRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const key = requires(product.database, "api_key");

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/agents",
      tags: ["Agents"],
      summary: "Create an agent",
      middleware: [key],
      request: { body: body(CreateAgent) },
      responses: { 200: json("The agent, at version 1, with every default resolved.", Agent), ...ERRORS },
    }),
    async (context) =>
      context.json(
        await createAgent(product.database, context.get("principal").workspaceId, context.req.valid("json")),
        200,
      ),
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/agents/{agent_id}",
      tags: ["Agents"],
      summary: "Read an agent",
      middleware: [key],
      request: {
        params: z.object({ agent_id: z.string() }),
        query: z.object({
          version: z.coerce
            .number()
            .int()
            .min(1)
            .optional()
            .openapi({ description: "An older version; the newest by default." }),
        }),
      },
      responses: { 200: json("The agent.", Agent), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const agentId = context.req.valid("param").agent_id;
      return context.json(
        await getAgent(product.database, { workspaceId, agentId, version: context.req.valid("query").version }),
        200,
      );
    },
  );
  return app;
}
