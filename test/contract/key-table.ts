/** Every route of the API and what each kind of key gets there. The names are those of the OpenAPI document. */

/** What a route's ids stand for. */
export interface World {
  readonly agent: string;
  readonly environment: string;
  readonly session: string;
  readonly thread: string;
  readonly work: string;
  readonly key: string;
}

export const NOUNS: Readonly<Record<string, keyof World>> = {
  agent_id: "agent",
  environment_id: "environment",
  session_id: "session",
  thread_id: "thread",
  work_id: "work",
  key_id: "key",
};

/** The kinds of keys that open something. Those that open nothing are a 401 everywhere. */
export const KINDS = ["api", "environment", "otherEnvironment", "work", "otherWork", "claim"] as const;
export type Kind = (typeof KINDS)[number];

export interface Row extends Readonly<Record<Kind, 200 | 403 | 404 | 412>> {
  readonly body?: (ids: World) => unknown;
  readonly query?: string;
  /** With another workspace's API key: `own` where the route names no id, `empty` for lists. */
  readonly foreign: "own" | "empty" | 403 | 404;
  /** Changes what it is given so that the next probe would meet another world. */
  readonly destroys?: "thing" | "claim";
}

/** Nobody but an application. */
const application = {
  api: 200,
  environment: 403,
  otherEnvironment: 403,
  work: 403,
  otherWork: 403,
  claim: 403,
} as const;
/** The worker of the session reads it too; another session's worker does not know it. */
const shared = { ...application, work: 200, otherWork: 404 } as const;
/** A claim's token or the environment key that claimed; neither does an unacknowledged token end its claim. */
const holders = { api: 403, environment: 200, otherEnvironment: 404, work: 200, otherWork: 404, claim: 403 } as const;

export const TABLE: Readonly<Record<string, Row>> = {
  "POST /v1/agents": { ...application, foreign: "own", body: () => ({ name: "A", model: "m" }) },
  "GET /v1/agents": { ...application, foreign: "empty" },
  "GET /v1/agents/{agent_id}": { ...application, foreign: 404 },
  "POST /v1/agents/{agent_id}": { ...application, foreign: 404, body: () => ({ description: "d" }) },
  "POST /v1/agents/{agent_id}/archive": { ...application, foreign: 404, destroys: "thing" },
  "GET /v1/agents/{agent_id}/versions": { ...application, foreign: 404 },
  "POST /v1/environments": { ...application, foreign: "own", body: () => ({ name: "E" }) },
  "GET /v1/environments": { ...application, foreign: "empty" },
  "GET /v1/environments/{environment_id}": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}": { ...application, foreign: 404, body: () => ({ description: "d" }) },
  "DELETE /v1/environments/{environment_id}": { ...application, foreign: 404, destroys: "thing" },
  "POST /v1/environments/{environment_id}/archive": { ...application, foreign: 404, destroys: "thing" },
  "POST /v1/environments/{environment_id}/keys": { ...application, foreign: 404, body: () => ({ name: "K" }) },
  "GET /v1/environments/{environment_id}/keys": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}/keys/{key_id}/rotate": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}/keys/{key_id}/revoke": { ...application, foreign: 404, destroys: "thing" },
  "POST /v1/environments/{environment_id}/healthcheck": {
    ...application,
    foreign: 404,
    body: () => ({ wait_ms: 1000 }),
  },
  "POST /v1/sessions": {
    ...application,
    foreign: 404,
    body: ({ agent, environment }) => ({ agent, environment_id: environment }),
  },
  "GET /v1/sessions": { ...application, foreign: "empty" },
  "GET /v1/sessions/{session_id}": { ...shared, foreign: 404 },
  "POST /v1/sessions/{session_id}": { ...application, foreign: 404, body: () => ({ title: "T" }) },
  "DELETE /v1/sessions/{session_id}": { ...application, foreign: 404, destroys: "thing" },
  "POST /v1/sessions/{session_id}/archive": { ...application, foreign: 404, destroys: "thing" },
  // A worker's token sends results only; see "a work token posts results and nothing else".
  "POST /v1/sessions/{session_id}/events": {
    ...application,
    otherWork: 404,
    foreign: 404,
    destroys: "thing",
    body: () => ({ events: [{ type: "user.interrupt" }] }),
  },
  "GET /v1/sessions/{session_id}/events": { ...shared, foreign: 404 },
  "GET /v1/sessions/{session_id}/events/stream": { ...shared, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}/events": { ...application, foreign: 404 },
  "GET /v1/sessions/{session_id}/threads/{thread_id}/stream": { ...application, foreign: 404 },
  "GET /v1/environments/{environment_id}/work": { ...application, foreign: 404 },
  "GET /v1/environments/{environment_id}/work/poll": {
    ...application,
    api: 403,
    environment: 200,
    otherEnvironment: 404,
    foreign: 403,
  },
  "GET /v1/environments/{environment_id}/work/stats": {
    ...application,
    environment: 200,
    otherEnvironment: 404,
    foreign: 404,
  },
  "GET /v1/environments/{environment_id}/work/{work_id}": { ...application, foreign: 404 },
  "POST /v1/environments/{environment_id}/work/{work_id}": {
    ...application,
    foreign: 404,
    body: () => ({ metadata: { a: "1" } }),
  },
  "POST /v1/environments/{environment_id}/work/{work_id}/ack": { ...holders, claim: 200, foreign: 403 },
  "POST /v1/environments/{environment_id}/work/{work_id}/heartbeat": {
    ...holders,
    environment: 403,
    otherEnvironment: 403,
    // Its own item, which it does not hold yet.
    claim: 412,
    foreign: 403,
    query: "?expected_last_heartbeat=NO_HEARTBEAT&desired_ttl_seconds=300",
  },
  "POST /v1/environments/{environment_id}/work/{work_id}/stop": {
    ...holders,
    api: 200,
    foreign: 404,
    destroys: "claim",
  },
  "POST /v1/environments/{environment_id}/work/{work_id}/fail": {
    ...holders,
    foreign: 403,
    destroys: "claim",
    body: () => ({ message: "The image could not be pulled." }),
  },
};
