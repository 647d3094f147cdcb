import { HTTPException } from "hono/http-exception";
import { ApiError, InternalError, InvalidRequest, NotFound, RequestTooLarge, Unavailable } from "../contract/errors.ts";
import { CommitUnknown, isDatabaseError } from "../db/transaction.ts";
import type { Log } from "../ports/log.ts";

/** SQLSTATE of a text that PostgreSQL cannot store: one with a NUL. */
const CHARACTER_NOT_IN_REPERTOIRE = "22021";

/** SQLSTATE of a reference to a row that was deleted while the request was under way. */
const FOREIGN_KEY_VIOLATION = "23503";

/** The request that failed. */
interface Failed {
  readonly method: string;
  readonly requestId: string;
}

/** What may be told of an error: ours as they are, everything else as a class that says what to do next. */
export function asApiError(error: unknown, log: Log, { method, requestId }: Failed): ApiError {
  if (error instanceof ApiError) {
    return error;
  }
  if (error instanceof HTTPException) {
    return error.status === 413
      ? new RequestTooLarge("The body is too large.")
      : new InvalidRequest(error.message || "The request is not valid.");
  }
  if (isDatabaseError(error) && error.code === CHARACTER_NOT_IN_REPERTOIRE) {
    return new InvalidRequest("The request holds a NUL character in a place that must be plain text.");
  }
  if (isDatabaseError(error) && error.code === FOREIGN_KEY_VIOLATION) {
    return new NotFound("Something that the request refers to has just been deleted.");
  }
  const name = error instanceof Error ? error.name : "unknown";
  const code = (error as { code?: unknown } | null)?.code;
  log.error("A request failed.", {
    request_id: requestId,
    error: name,
    code: typeof code === "string" ? code : undefined,
    at: firstFrame(error),
  });
  if (error instanceof CommitUnknown) {
    // The write may have happened: a client that repeats it by itself could send the same message twice.
    return new InternalError(
      "The database connection was lost while committing; whether the request took effect is unknown. Read before you repeat it.",
      {
        shouldRetry: false,
      },
    );
  }
  if (isConnectionFailure(error)) {
    return new Unavailable("The database cannot be reached; nothing was written. Try again shortly.", {
      retryAfter: 5,
    });
  }
  if (method === "GET" && isLostConnection(error)) {
    return new Unavailable("The database connection was lost. Reading again is safe.", { retryAfter: 1 });
  }
  return new InternalError("An internal error occurred; the request id helps to find it in the logs.", {
    shouldRetry: false,
  });
}

/** What the pool says of a connection that was not made in time, and of those who waited for it. */
const CONNECT_TIMEOUTS = ["Connection terminated due to connection timeout", "timeout exceeded when trying to connect"];

/**
 * Raised while a connection was being made (53300: there are too many), so before any write; or by a server that ended
 * the connection on request (57P01), which it does between statements or by undoing the one that runs, never after a
 * commit that it did not report.
 */
function isConnectionFailure(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return (
    code === "ECONNREFUSED" ||
    code === "53300" ||
    code === "57P01" ||
    code === "57P03" ||
    (typeof message === "string" && CONNECT_TIMEOUTS.some((said) => message.includes(said)))
  );
}

/**
 * Raised under a statement that the server may have carried out or not. Of what GET does only a poll writes, and a claim
 * whose answer was lost is taken up again by the next one.
 */
function isLostConnection(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return code === "ECONNRESET" || code === "EPIPE" || message === "Connection terminated unexpectedly";
}

/** Where it was thrown; the message is left out because it may quote a request. */
function firstFrame(error: unknown): string | undefined {
  return error instanceof Error
    ? error.stack
        ?.split("\n")
        .find((line) => line.trimStart().startsWith("at "))
        ?.trim()
    : undefined;
}

/** The envelope and its headers. */
export function errorResponse(error: ApiError, requestId: string): Response {
  const headers = new Headers({ "content-type": "application/json", "request-id": requestId });
  if (error.shouldRetry !== undefined) {
    headers.set("x-should-retry", String(error.shouldRetry));
  }
  if (error.retryAfter !== undefined) {
    headers.set("retry-after", String(error.retryAfter));
  }
  if (error.status === 413) {
    // The rest of the body is not read, so nothing else can come over this connection.
    headers.set("connection", "close");
  }
  const { type, message, details } = error;
  const body = {
    type: "error",
    error: details === undefined ? { type, message } : { type, message, details },
    request_id: requestId,
  };
  return new Response(JSON.stringify(body), { status: error.status, headers });
}
