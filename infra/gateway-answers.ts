import { type GatewayResponseOptions, ResponseType } from "aws-cdk-lib/aws-apigateway";
import type { ApiErrorType } from "../shared/contract/errors.ts";

/** What the gateway answers by itself, in the envelope of the API: a client never meets another form. */

interface Answer extends GatewayResponseOptions {
  readonly type: ResponseType;
}

function answer(
  type: ResponseType,
  fields: {
    readonly error: ApiErrorType;
    /** JSON text of the message; the gateway's own words by default. */
    readonly message?: string;
    readonly status?: string;
    readonly headers?: Readonly<Record<string, string>>;
  },
): Answer {
  const message = fields.message === undefined ? "$context.error.messageString" : JSON.stringify(fields.message);
  return {
    type,
    ...(fields.status !== undefined && { statusCode: fields.status }),
    responseHeaders: { "request-id": "context.requestId", ...fields.headers },
    templates: {
      "application/json": `{"type":"error","error":{"type":"${fields.error}","message":${message}},"request_id":"$context.requestId"}`,
    },
  };
}

/** The function may have committed before the gateway gave up on it, and both SDKs repeat a 5xx by themselves. */
const UNKNOWN_OUTCOME = { "x-should-retry": "'false'" };

export const GATEWAY_ANSWERS: readonly Answer[] = [
  answer(ResponseType.DEFAULT_4XX, { error: "invalid_request_error" }),
  answer(ResponseType.DEFAULT_5XX, { error: "api_error", headers: UNKNOWN_OUTCOME }),
  answer(ResponseType.INTEGRATION_TIMEOUT, {
    error: "api_error",
    message: "The request took too long; whether it took effect is unknown. Read before you repeat it.",
    headers: UNKNOWN_OUTCOME,
  }),
  answer(ResponseType.INTEGRATION_FAILURE, {
    error: "api_error",
    message: "The request failed inside; whether it took effect is unknown. Read before you repeat it.",
    headers: UNKNOWN_OUTCOME,
  }),
  answer(ResponseType.MISSING_AUTHENTICATION_TOKEN, {
    error: "not_found_error",
    message: "There is nothing at this address.",
    status: "404",
  }),
  answer(ResponseType.REQUEST_TOO_LARGE, {
    error: "request_too_large",
    message: "The body is larger than this API takes.",
    status: "413",
  }),
  answer(ResponseType.THROTTLED, {
    error: "rate_limit_error",
    message: "Too many requests at once. Nothing was done; try again shortly.",
    headers: { "retry-after": "'1'" },
  }),
  answer(ResponseType.QUOTA_EXCEEDED, { error: "rate_limit_error" }),
  answer(ResponseType.ACCESS_DENIED, { error: "permission_error" }),
  answer(ResponseType.UNAUTHORIZED, { error: "authentication_error" }),
  answer(ResponseType.WAF_FILTERED, { error: "permission_error", message: "The firewall refused this request." }),
];
