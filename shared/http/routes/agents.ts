import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import {
  archiveAgent,
  createAgent,
  getAgent,
  listAgents,
  listAgentVersions,
  updateAgent,
} from "../../agents/agents.ts";
import { Agent, CreateAgent, UpdateAgent } from "../../contract/agents.ts";
import { inTransaction } from "../../db/transaction.ts";
import { capabilitiesOf } from "../../permissions/capabilities.ts";
import type { Product } from "../../product.ts";
import { answer, body, ERRORS, json, rawJson } from "../answers.ts";
import { type Env, requires } from "../auth.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { IdempotencyHeader, idempotently } from "../idempotency.ts";
import { cut, decodeCreated, IncludeArchived, Instant, PageQuery, pageOf, pageThatFits } from "../paging.ts";
import { router } from "../router.ts";

const AgentParam = z.object({ agent_id: z.string() });

export function agentRoutes(product: Product): OpenAPIHono<Env> {
  const app = router();
  const middleware = [requires(product.database, "api_key")];

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/agents",
      tags: ["Agents"],
      summary: "Create an agent",
      middleware,
      request: { headers: IdempotencyHeader, body: body(CreateAgent) },
      responses: { 200: json("The agent, at version 1, with every default resolved.", Agent), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const params = { workspaceId, capabilities: capabilitiesOf(product), body: context.req.valid("json") };
      const made = await idempotently(product, context, async (transaction) => ({
        body: JSON.stringify(await createAgent(transaction, params)),
        effect: null,
      }));
      return rawJson(made.body);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/agents",
      tags: ["Agents"],
      summary: "List agents",
      description: "At their newest version, newest agent first.",
      middleware,
      request: {
        query: PageQuery.extend({
          include_archived: IncludeArchived,
          "created_at[gte]": Instant.optional().openapi({ type: "string", format: "date-time" }),
          "created_at[lte]": Instant.optional().openapi({ type: "string", format: "date-time" }),
        }),
      },
      responses: { 200: json("A page of agents.", pageOf(Agent)), ...ERRORS },
    }),
    async (context) => {
      const { workspaceId } = context.get("principal");
      const query = context.req.valid("query");
      const createdAt = { gte: query["created_at[gte]"], lte: query["created_at[lte]"] };
      const filters = { workspaceId, includeArchived: query.include_archived, createdAt };
      const after = decodeCreated("agents", filters, query.page);
      const found = await listAgents(product.database, { ...filters, after, limit: query.limit + 1 });
      return answer(cut("agents", filters, found, query.limit));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/agents/{agent_id}",
      tags: ["Agents"],
      summary: "Read an agent",
      middleware,
      request: {
        params: AgentParam,
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
      return answer(
        await getAgent(product.database, { workspaceId, agentId, version: context.req.valid("query").version }),
      );
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/agents/{agent_id}",
      tags: ["Agents"],
      summary: "Update an agent",
      description:
        "Makes a new version, or none when nothing changes. Fields left out stay; null clears system, description and lists; metadata is merged, null deletes a key. With version, 409 unless it is the newest.",
      middleware,
      request: { params: AgentParam, body: body(UpdateAgent) },
      responses: { 200: json("The agent at its newest version.", Agent), ...ERRORS },
    }),
    async (context) => {
      const ref = { workspaceId: context.get("principal").workspaceId, agentId: context.req.valid("param").agent_id };
      const params = { capabilities: capabilitiesOf(product), change: context.req.valid("json") };
      return answer(await inTransaction(product.database, (transaction) => updateAgent(transaction, ref, params)));
    },
  );

  app.openapi(
    createRoute({
      method: "post",
      path: "/v1/agents/{agent_id}/archive",
      tags: ["Agents"],
      summary: "Archive an agent",
      description: "Read-only from then on; no new session can use it; sessions that run it go on.",
      middleware,
      request: { params: AgentParam },
      responses: { 200: json("The agent.", Agent), ...ERRORS },
    }),
    async (context) => {
      const ref = { workspaceId: context.get("principal").workspaceId, agentId: context.req.valid("param").agent_id };
      return answer(await inTransaction(product.database, (transaction) => archiveAgent(transaction, ref)));
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/agents/{agent_id}/versions",
      tags: ["Agents"],
      summary: "List an agent's versions",
      description: "Newest first; each is the whole agent as it was.",
      middleware,
      request: { params: AgentParam, query: PageQuery },
      responses: { 200: json("A page of versions.", pageOf(Agent)), ...ERRORS },
    }),
    async (context) => {
      const ref = { workspaceId: context.get("principal").workspaceId, agentId: context.req.valid("param").agent_id };
      const { limit, page } = context.req.valid("query");
      const before = page === undefined ? null : (decodeCursor("versions", ref, page) as number);
      const found = await listAgentVersions(product.database, { ...ref, before, limit: limit + 1 });
      const { page: data, more } = pageThatFits(found, limit);
      const last = data.at(-1);
      const next = more && last !== undefined ? encodeCursor("versions", ref, last.version) : null;
      return answer({ data, next_page: next });
    },
  );
  return app;
}
