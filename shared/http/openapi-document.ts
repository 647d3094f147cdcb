import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Env } from "./auth.ts";

/** The head of the OpenAPI document; its paths and schemas come from the routes. */
export const DOCUMENT_HEAD = {
  openapi: "3.1.0",
  info: {
    title: "Mango",
    version: "2026-12-01",
    description:
      "A durable control plane for managed agents. Every error uses the Error envelope and every answer has a request-id header. Unknown body fields are refused, unknown query parameters are ignored. Send the key in X-Api-Key or as a Bearer token, not both.",
    license: { name: "Apache-2.0", identifier: "Apache-2.0" },
  },
  security: [{ ApiKey: [] }, { Bearer: [] }],
};

/** The document as JSON text, the same at every call: what is served, and what is committed as docs/openapi.json. */
export function openApiDocument(app: OpenAPIHono<Env>): string {
  return `${JSON.stringify(app.getOpenAPI31Document(DOCUMENT_HEAD), null, 2)}\n`;
}
