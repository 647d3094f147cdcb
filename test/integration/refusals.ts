/** A refused request: what every refusal must look like, and that it left no trace in the database. */
import { expect } from "vitest";
import type { TestServer } from "../server.ts";

const TABLES = [
  "agents",
  "agent_versions",
  "environments",
  "sessions",
  "threads",
  "events",
  "turns",
  "transcript_entries",
];

export interface Refusal {
  readonly status: number;
  readonly type: string;
  /** What the message must name. */
  readonly names?: string;
}

export interface BadRequest {
  readonly method?: string;
  readonly path: string;
  readonly json?: unknown;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string | null;
}

export async function countRows(server: TestServer): Promise<Record<string, number>> {
  const counts = TABLES.map((table) => `(select count(*)::int from ${table}) as ${table}`);
  const { rows } = await server.database.pool.query<Record<string, number>>(`select ${counts.join(", ")}`);
  return rows[0] ?? {};
}

export async function send(server: TestServer, request: BadRequest): Promise<Response> {
  const { path, json, body, key, method, headers } = request;
  return server.request(path, {
    ...(json !== undefined && { json }),
    ...(body !== undefined && { method: "POST", body, headers: { "content-type": "application/json" } }),
    ...(key !== undefined && { key }),
    ...(headers !== undefined && { headers }),
    ...(method !== undefined && { method }),
  });
}

export async function expectRefused(server: TestServer, request: BadRequest, refusal: Refusal): Promise<void> {
  const before = await countRows(server);
  const response = await send(server, request);
  const text = await response.text();
  expect({ status: response.status, text }).toMatchObject({ status: refusal.status });
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  const body = JSON.parse(text) as { error: { message: string }; request_id: string };
  expect(Object.keys(body).toSorted()).toEqual(["error", "request_id", "type"]);
  expect(body).toMatchObject({ type: "error", error: { type: refusal.type } });
  expect(body.request_id).toMatch(/^req_/);
  expect(body.request_id).toBe(response.headers.get("request-id"));
  expect(body.error.message).not.toBe("");
  if (refusal.names !== undefined) expect(body.error.message).toContain(refusal.names);
  expect(await countRows(server)).toEqual(before);
}
