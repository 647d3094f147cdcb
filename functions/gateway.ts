import type { APIGatewayProxyEvent, APIGatewayProxyResult } from "aws-lambda";
import { Unavailable } from "../shared/contract/errors.ts";
import { asApiError, errorResponse } from "../shared/http/error-answer.ts";
import { EnvironmentError } from "./environment.ts";
import { log } from "./log.ts";

/**
 * Between API Gateway's REST proxy events and the standard Request and Response that the app speaks.
 *
 * Not hono's own adapter: `hono/aws-lambda` is deprecated, its successor was not published when this was written, and
 * what goes wrong before the app is reached, it answers in plain text.
 */

type Fetch = (request: Request) => Response | Promise<Response>;

/** Asks the app, which is made by the first request. Never rejects: what fails is answered in our envelope. */
export async function respond(app: () => { readonly fetch: Fetch }, event: APIGatewayProxyEvent): Promise<Response> {
  try {
    return await app().fetch(requestOf(event));
  } catch (error) {
    const requestId = event.requestContext.requestId;
    if (error instanceof EnvironmentError) {
      // Before any write. A deployment changes a function's code and its variables one after the other: for a moment one
      // of them is new, and a client that comes again is answered by both.
      log.error(error.message);
      const message = "This deployment is not complete; nothing was done. Try again shortly.";
      return errorResponse(new Unavailable(message, { retryAfter: 5 }), requestId);
    }
    return errorResponse(asApiError(error, log, { method: event.httpMethod, requestId }), requestId);
  }
}

function requestOf(event: APIGatewayProxyEvent): Request {
  const url = new URL(`https://${event.requestContext.domainName ?? "localhost"}${event.path}`);
  for (const [name, values] of Object.entries(event.multiValueQueryStringParameters ?? {})) {
    for (const value of values ?? []) {
      url.searchParams.append(name, value);
    }
  }
  const headers = new Headers();
  for (const [name, values] of Object.entries(event.multiValueHeaders ?? {})) {
    for (const value of values ?? []) {
      headers.append(name, value);
    }
  }
  // A body that came with a GET is one that Request refuses.
  const bodiless = event.body === null || event.httpMethod === "GET" || event.httpMethod === "HEAD";
  return new Request(url, {
    method: event.httpMethod,
    headers,
    body: bodiless ? null : Buffer.from(event.body ?? "", event.isBase64Encoded ? "base64" : "utf8"),
  });
}

/** The whole response at once. */
export async function answerOf(response: Response): Promise<APIGatewayProxyResult> {
  const bytes = Buffer.from(await response.arrayBuffer());
  const isText = /^(text\/|application\/json)/.test(response.headers.get("content-type") ?? "text/");
  return {
    statusCode: response.status,
    headers: Object.fromEntries(response.headers),
    body: bytes.toString(isText ? "utf8" : "base64"),
    isBase64Encoded: !isText,
  };
}
