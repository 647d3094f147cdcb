import type { OpenAPIHono } from "@hono/zod-openapi";
import { NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Product } from "../product.ts";
import type { Env } from "./auth.ts";
import { bodyLimit, MAX_BODY_MB } from "./body-limit.ts";
import { asApiError, errorResponse } from "./error-answer.ts";
import { openApiDocument } from "./openapi-document.ts";
import { router } from "./router.ts";
import { agentRoutes } from "./routes/agents.ts";
import { environmentKeyRoutes } from "./routes/environment-keys.ts";
import { environmentRoutes } from "./routes/environments.ts";
import { eventRoutes } from "./routes/events.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { type StreamOptions, streamRoutes } from "./routes/stream.ts";
import { threadRoutes } from "./routes/threads.ts";
import { workRoutes } from "./routes/work.ts";
import { workQueueRoutes } from "./routes/work-queue.ts";

export interface AppOptions extends StreamOptions {
  /** The largest body, in megabytes, where what stands before the app takes less than the API allows (32). */
  readonly maxBodyMb?: number;
}

/**
 * The whole API: one app, served by Node in the embedded edition and by Lambda on AWS. What it documents at
 * `/openapi.json` is generated from the schemas that validate.
 */
export function createApp(product: Product, options: AppOptions): OpenAPIHono<Env> {
  const app = router();
  app.use("*", async (context, next) => {
    const requestId = newId("req");
    context.set("requestId" as never, requestId as never);
    await next();
    context.res.headers.set("request-id", requestId);
  });
  app.use("/v1/*", async (context, next) => {
    // No id holds a NUL, and PostgreSQL would not even compare one.
    if (/%00/.test(new URL(context.req.url).pathname)) {
      throw new NotFound("There is nothing whose id holds a NUL.");
    }
    await next();
  });
  app.use("/v1/*", bodyLimit(options.maxBodyMb ?? MAX_BODY_MB));
  app.onError((error, context) => {
    const requestId = context.get("requestId") ?? newId("req");
    const { method } = context.req;
    return errorResponse(asApiError(error, product.log, { method, requestId }), requestId);
  });
  app.notFound((context) =>
    errorResponse(
      new NotFound(`There is nothing at ${context.req.method} ${context.req.path}.`),
      context.get("requestId"),
    ),
  );

  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    await product.database.query("select 1");
    return context.json({ status: "ready" });
  });

  app.route("/", agentRoutes(product));
  app.route("/", environmentRoutes(product));
  app.route("/", environmentKeyRoutes(product));
  app.route("/", sessionRoutes(product));
  app.route("/", eventRoutes(product));
  app.route("/", threadRoutes(product));
  app.route("/", streamRoutes(product, options));
  app.route("/", workRoutes(product));
  app.route("/", workQueueRoutes(product));

  app.openAPIRegistry.registerComponent("securitySchemes", "ApiKey", {
    type: "apiKey",
    in: "header",
    name: "X-Api-Key",
  });
  app.openAPIRegistry.registerComponent("securitySchemes", "Bearer", { type: "http", scheme: "bearer" });
  let document: string | undefined;
  app.get("/openapi.json", () => {
    document ??= openApiDocument(app);
    return new Response(document, { headers: { "content-type": "application/json" } });
  });
  return app;
}
