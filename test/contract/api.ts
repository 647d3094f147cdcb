/** Requests as the contract's tests make them, and what every refusal must look like. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { ensureWorkspace, setApiKey } from "../../shared/workspaces/keys.ts";
import type { TestServer } from "../server.ts";

/** A JSON answer; the named fields are those that the tests look at. */
export interface Body {
  readonly id: string;
  readonly type: string;
  readonly name: string;
  readonly status: string;
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
  readonly archived_at: string | null;
  readonly processed_at: string | null;
  readonly agent: Body;
  readonly tools: readonly Body[];
  readonly configs: readonly Body[];
  readonly data: readonly Body[];
  readonly next_page: string | null;
  readonly prev_page: string | null;
  readonly stop_reason: { readonly type: string; readonly event_ids?: readonly string[] };
  readonly error: {
    readonly type: string;
    readonly message: string;
    readonly details?: { readonly error_code?: string };
  };
  readonly request_id: string;
  readonly [field: string]: unknown;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Body;
}

export interface Api {
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Without a body it sends none, nor a content type. */
  post(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  delete(path: string): Promise<Answer>;
  /** As get, post and delete, for what must succeed. */
  read(path: string): Promise<Body>;
  write(path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Body>;
  remove(path: string): Promise<Body>;
}

/** The API under a key: the test key unless said otherwise, none with null. */
export function apiOf(server: Pick<TestServer, "request">, key?: string | null): Api {
  const call = async (path: string, init: Parameters<TestServer["request"]>[1]): Promise<Answer> => {
    const response = await server.request(path, { ...init, ...(key !== undefined && { key }) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Body };
  };
  const get: Api["get"] = (path, headers = {}) => call(path, { headers });
  const post: Api["post"] = (path, body, headers = {}) =>
    call(path, { method: "POST", headers, ...(body !== undefined && { json: body }) });
  const remove = (path: string) => call(path, { method: "DELETE" });
  return {
    get,
    post,
    delete: remove,
    read: async (path) => succeeded(await get(path)),
    write: async (path, body, headers) => succeeded(await post(path, body, headers)),
    remove: async (path) => succeeded(await remove(path)),
  };
}

function succeeded(answer: Answer): Body {
  if (answer.status !== 200) throw new Error(`Not a success: ${answer.status} ${answer.text}`);
  return answer.body;
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  409: "conflict_error",
  413: "request_too_large",
  422: "invalid_request_error",
  429: "rate_limit_error",
};

/** The one envelope, the status's own error type, and a message that names what is wrong. */
export function expectError(answer: Answer, status: number, names?: string | RegExp): void {
  expect({ status: answer.status, text: answer.text }).toMatchObject({ status });
  expectEnvelope(answer);
  expect(answer.body.error.type).toBe(ERROR_TYPES[status]);
  if (status === 409) expect(answer.headers.get("x-should-retry")).toBe("false");
  if (names !== undefined) expect(answer.body.error.message).toMatch(names);
}

export function expectEnvelope(answer: Answer): void {
  expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  expect(Object.keys(answer.body).toSorted()).toEqual(["error", "request_id", "type"]);
  expect(answer.body.type).toBe("error");
  expect(answer.body.error.message).not.toBe("");
  expect(answer.body.request_id).toMatch(/^req_/);
  expect(answer.headers.get("request-id")).toBe(answer.body.request_id);
}

const TABLES = [
  "agents",
  "agent_versions",
  "environments",
  "sessions",
  "threads",
  "events",
  "turns",
  "outbox",
] as const;

/** Rows of everything that a request can create. */
export async function rowCounts(server: TestServer): Promise<Record<string, number>> {
  const counts = TABLES.map((table) => `(select count(*)::int from ${table}) as ${table}`);
  const { rows } = await server.database.pool.query<Record<string, number>>(`select ${counts.join(", ")}`);
  return rows[0] ?? {};
}

/**
 * Refused, and nothing was written. A turn of an earlier request may be writing at the same time, so a difference
 * counts when the request, which is refused and can be repeated, shows one each time.
 */
export async function expectRefused(
  server: TestServer,
  request: () => Promise<Answer>,
  status: number,
  names?: string | RegExp,
): Promise<Answer> {
  for (let attempt = 1; ; attempt += 1) {
    const before = await rowCounts(server);
    const answer = await request();
    expectError(answer, status, names);
    const after = await rowCounts(server);
    if (attempt === 4) expect(after).toEqual(before);
    if (JSON.stringify(after) === JSON.stringify(before)) return answer;
    await sleep(100);
  }
}

/** Every item of a list, page by page, and the sizes of the pages. */
export async function allPages(api: Api, path: string): Promise<{ items: Body[]; sizes: number[] }> {
  const items: Body[] = [];
  const sizes: number[] = [];
  let page: string | null = null;
  do {
    const cursor: string = page === null ? "" : `&page=${encodeURIComponent(page)}`;
    const body: Body = await api.read(`${path}${cursor}`);
    items.push(...body.data);
    sizes.push(body.data.length);
    page = body.next_page;
    if (sizes.length > 1000) throw new Error(`The pages of ${path} do not end.`);
  } while (page !== null);
  return { items, sizes };
}

export const ids = (items: readonly Body[]): string[] => items.map(({ id }) => id);

export const OTHER_KEY = "sk-mango-other-key-111111";

/** A second workspace on the same server, and its key's view of the API. */
export async function otherWorkspace(server: TestServer): Promise<Api> {
  const { pool } = server.database;
  await ensureWorkspace(pool, { id: "wrkspc_other", name: "other" });
  await setApiKey(pool, { workspaceId: "wrkspc_other", name: "other", secret: OTHER_KEY });
  return apiOf(server, OTHER_KEY);
}

export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
