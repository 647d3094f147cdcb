import { once } from "node:events";
import http from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { gatewayEvent } from "./testing/gateway-event.ts";

/** A database that resumes: it takes connections and says nothing until it is there. */
let database: Server;
/** The table that keeps the marker of activity; it takes whatever it is sent. */
let table: http.Server;
type Answer = { statusCode: number; body: string; headers: Record<string, string> };
let handler: (event: unknown, context: unknown) => Promise<Answer>;

beforeAll(async () => {
  database = createServer(() => {}).listen(0, "127.0.0.1");
  table = http.createServer((request, response) => {
    request.resume().once("end", () => response.setHeader("content-type", "application/x-amz-json-1.0").end("{}"));
  });
  table.listen(0, "127.0.0.1");
  await Promise.all([once(database, "listening"), once(table, "listening")]);
  const environment = {
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(table.address() as AddressInfo).port}`,
    MANGO_DATABASE_HOST: "127.0.0.1",
    MANGO_DATABASE_PORT: String((database.address() as AddressInfo).port),
    MANGO_DATABASE_NAME: "mango",
    MANGO_DATABASE_USER: "mango_app",
    MANGO_DATABASE_TLS: "off",
    MANGO_LIVE_TABLE: "live",
    MANGO_RELAY_QUEUE_URL: "http://127.0.0.1:9/queue",
    MANGO_SCALE_TO_ZERO: "on",
    MANGO_STATE_MACHINE_ARN: "arn:aws:states:eu-central-1:123456789012:stateMachine:mango-test-turn",
  };
  for (const [name, value] of Object.entries(environment)) {
    vi.stubEnv(name, value);
  }
  ({ handler } = (await import("./api.lambda.ts")) as unknown as { handler: typeof handler });
});

afterAll(() => {
  database.close();
  table.close();
  table.closeAllConnections();
});

test("while the database resumes a client is told to come again, before any write", async () => {
  const event = gatewayEvent("POST", "/v1/agents", {
    body: JSON.stringify({ name: "Tester", model: "test-1" }),
    multiValueHeaders: { "x-api-key": ["sk-mango-api-key"], "content-type": ["application/json"] },
  });
  const context = { functionName: "api", awsRequestId: "1", getRemainingTimeInMillis: () => 29_000 };

  const answer = await handler(event, context);

  expect(answer.statusCode).toBe(503);
  expect(answer.headers["retry-after"]).toBe("5");
  expect(JSON.parse(answer.body)).toMatchObject({
    type: "error",
    error: { message: "The database cannot be reached; nothing was written. Try again shortly." },
  });
});
