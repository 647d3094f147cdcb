import type { ReadableStream } from "node:stream/web";
import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import middy from "@middy/core";
import { executionModeStreamifyResponse } from "@middy/core/executionModeStreamifyResponse";
import type { APIGatewayProxyEvent } from "aws-lambda";
import { app } from "./app.ts";
import { respond } from "./gateway.ts";
import { nothingUnderWay } from "./invocation.ts";
import { logger } from "./log.ts";

/**
 * Streams of events, through Lambda's response streaming. Status and headers go out when the app has answered, so a
 * refusal is an ordinary answer; from then on middy pipes, keeps back-pressure, and cancels the stream of a client that
 * has gone.
 */
export const handler = middy<APIGatewayProxyEvent>({
  timeoutEarlyInMillis: 0,
  executionMode: executionModeStreamifyResponse,
})
  .use(injectLambdaContext(logger))
  .use(nothingUnderWay())
  .handler(async (event: APIGatewayProxyEvent) => {
    const response = await respond(app, event);
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      body: (response.body ?? "") as ReadableStream | string,
    };
  });
