/**
 * The errors of the API, one class for each thing that a caller can do next.
 *
 * Every one is answered in the envelope `{"type":"error","error":{"type","message","details"?},"request_id"}`.
 * Both official SDKs repeat a request by themselves after 408, 409, 429 and 5xx unless the answer carries
 * `x-should-retry: false`.
 */

export type ApiErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "not_found_error"
  | "conflict_error"
  | "request_too_large"
  | "rate_limit_error"
  | "api_error"
  | "overloaded_error";

export interface ErrorDetails {
  /** A stable code for programs. */
  readonly error_code?: string;
  readonly [name: string]: unknown;
}

interface ApiErrorOptions {
  readonly details?: ErrorDetails;
  readonly cause?: unknown;
  /** Value of `x-should-retry`; absent leaves the decision to the client. */
  readonly shouldRetry?: boolean;
  /** Value of `retry-after`, in seconds. */
  readonly retryAfter?: number;
}

export abstract class ApiError extends Error {
  /** Written out, and not the class's own: a minified program has shorter names for its classes. */
  abstract override readonly name: string;
  abstract readonly status: 400 | 401 | 403 | 404 | 409 | 412 | 413 | 422 | 429 | 500 | 503;
  abstract readonly type: ApiErrorType;
  readonly details: ErrorDetails | undefined;
  readonly shouldRetry: boolean | undefined;
  readonly retryAfter: number | undefined;

  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.details = options.details;
    this.shouldRetry = options.shouldRetry;
    this.retryAfter = options.retryAfter;
  }
}

/** The request itself is wrong; the message names the field. Correct it. */
export class InvalidRequest extends ApiError {
  readonly name = "InvalidRequest";
  readonly status = 400;
  readonly type = "invalid_request_error";
}

/** No key, two keys, or a key that opens nothing. */
export class Unauthenticated extends ApiError {
  readonly name = "Unauthenticated";
  readonly status = 401;
  readonly type = "authentication_error";
}

/** The key is good, but not for this. */
export class PermissionDenied extends ApiError {
  readonly name = "PermissionDenied";
  readonly status = 403;
  readonly type = "permission_error";
}

/** There is nothing by that id in the caller's workspace. */
export class NotFound extends ApiError {
  readonly name = "NotFound";
  readonly status = 404;
  readonly type = "not_found_error";
}

/** The resource is in a state that forbids this; repeating the same request cannot help. */
export class Conflict extends ApiError {
  readonly name = "Conflict";
  readonly status = 409;
  readonly type = "conflict_error";
  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, { shouldRetry: false, ...options });
  }
}

/** Somebody else holds the lease now: read `details.current_state`. */
export class PreconditionFailed extends ApiError {
  readonly name = "PreconditionFailed";
  readonly status = 412;
  readonly type = "invalid_request_error";
}

/** The body is over the limit that the message states. */
export class RequestTooLarge extends ApiError {
  readonly name = "RequestTooLarge";
  readonly status = 413;
  readonly type = "request_too_large";
}

/** Well formed, but it asks for something this server does not do; the message names the feature. */
export class Unsupported extends ApiError {
  readonly name = "Unsupported";
  readonly status = 422;
  readonly type = "invalid_request_error";
}

/** Too much at once: wait. */
export class RateLimited extends ApiError {
  readonly name = "RateLimited";
  readonly status = 429;
  readonly type = "rate_limit_error";
}

/** Nothing was written; the same request may be sent again. */
export class Unavailable extends ApiError {
  readonly name = "Unavailable";
  readonly status = 503;
  readonly type = "overloaded_error";
}

/** We failed. Unless said otherwise the outcome is unknown, so the SDKs are told not to repeat a write. */
export class InternalError extends ApiError {
  readonly name = "InternalError";
  readonly status = 500;
  readonly type = "api_error";
}
