import type { ReadableStream } from "node:stream/web";
import { TransformStream } from "node:stream/web";
import middy from "@middy/core";
import { executionModeStreamifyResponse } from "@middy/core/executionModeStreamifyResponse";
import type { APIGatewayProxyEvent } from "aws-lambda";
import { app } from "./app.ts";
import { respond } from "./gateway.ts";
import { observed } from "./observation.ts";
import { settle } from "./product.ts";

/**
 * Streams of events, through Lambda's response streaming. Status and headers go out when the app has answered, so a
 * refusal is an ordinary answer; from then on middy pipes, keeps back-pressure, and cancels the stream of a client that
 * has gone.
 */
export const handler = middy<APIGatewayProxyEvent>({
  timeoutEarlyInMillis: 0,
  executionMode: executionModeStreamifyResponse,
})
  .use(observed())
  .handler(async (event: APIGatewayProxyEvent) => {
    const response = await respond(app, event);
    return {
      statusCode: response.status,
      headers: Object.fromEntries(response.headers),
      // Its environment is frozen when the body has ended, not when this function has.
      body:
        (response.body as ReadableStream | null)?.pipeThrough(new TransformStream({ flush: settle, cancel: settle })) ??
        "",
    };
  });
