import { ReadableStream } from "node:stream/web";
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
      body: response.body === null ? "" : settledAtEnd(response.body),
    };
  });

/**
 * Its environment is frozen when the body has ended or its client has gone, not when the function has returned. What
 * the end itself set off, the stream's place given back, is under way only after the app has heard of it.
 */
function settledAtEnd(body: Response["body"] & object): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await reader.read().catch(async (error: unknown) => {
        await settle();
        throw error;
      });
      if (!done) {
        controller.enqueue(value);
        return;
      }
      await settle();
      controller.close();
    },
    async cancel(reason) {
      await reader.cancel(reason);
      await settle();
    },
  });
}
