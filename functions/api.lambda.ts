import middy from "@middy/core";
import type { APIGatewayProxyEvent, APIGatewayProxyResult } from "aws-lambda";
import { app } from "./app.ts";
import { answerOf, respond } from "./gateway.ts";
import { nothingUnderWay } from "./invocation.ts";
import { observed } from "./observation.ts";

/** Everything but streams; a second function with the same code has the worker's routes to itself. */
export const handler = middy<APIGatewayProxyEvent, APIGatewayProxyResult>({ timeoutEarlyInMillis: 0 })
  .use(observed())
  .use(nothingUnderWay())
  .handler(async (event: APIGatewayProxyEvent) => answerOf(await respond(app, event)));
