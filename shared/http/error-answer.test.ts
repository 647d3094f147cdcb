import pg from "pg";
import { expect, test } from "vitest";
import { CommitUnknown } from "../db/transaction.ts";
import { asApiError, errorResponse } from "./error-answer.ts";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

function databaseError(code: string): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError("The words of a tenant", 0, "error"), { code });
}

/** What a client does next: repeat it by itself after some seconds, or read first. */
const CASES: [what: string, error: unknown, status: number, shouldRetry: string | null, retryAfter: string | null][] = [
  [
    "a server that is not there",
    Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
    503,
    null,
    "5",
  ],
  ["a server that starts", databaseError("57P03"), 503, null, "5"],
  ["a server with too many connections", databaseError("53300"), 503, null, "5"],
  ["a server that was told to end the connection", databaseError("57P01"), 503, null, "5"],
  ["a connection that took too long", new Error("timeout exceeded when trying to connect"), 503, null, "5"],
  ["a connection lost under a statement", new Error("Connection terminated unexpectedly"), 500, "false", null],
  ["a connection lost under a commit", new CommitUnknown(new Error("lost")), 500, "false", null],
  ["a rule of the database", databaseError("23514"), 500, "false", null],
  ["a mistake of ours", new TypeError("The words of a tenant"), 500, "false", null],
];

test.each(CASES)("%s", async (_what, error, status, shouldRetry, retryAfter) => {
  const response = errorResponse(asApiError(error, silent, { method: "POST", requestId: "req_1" }), "req_1");

  expect([response.status, response.headers.get("x-should-retry"), response.headers.get("retry-after")]).toEqual([
    status,
    shouldRetry,
    retryAfter,
  ]);
  expect(await response.text()).not.toContain("The words of a tenant");
});

test.each([
  ["told by the driver", new Error("Connection terminated unexpectedly")],
  ["told by the socket", Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" })],
])("F26: a read whose connection was lost is to be repeated, a write is not: %s", (_what, error) => {
  const answered = (method: string) => {
    const { status, headers } = errorResponse(asApiError(error, silent, { method, requestId: "req_1" }), "req_1");
    return [status, headers.get("x-should-retry"), headers.get("retry-after")];
  };

  expect(answered("GET")).toEqual([503, null, "1"]);
  expect(answered("POST")).toEqual([500, "false", null]);
});
