/** Any JSON in: never a 5xx, always the envelope from 400 on, never a partial write. */
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import fc from "fast-check";
import { afterAll, beforeAll, expect } from "vitest";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import { anyBody, anyChange, known, mutated, ROUTES } from "./any-body.ts";
import { type Answer, apiOf, expectEnvelope, rowCounts } from "./api.ts";
import { documentOfSource } from "./document.ts";
import { newSession } from "./driver.ts";
import { verifies } from "./verifies.ts";

/** Printed, so that a failing run can be repeated. */
const SEED = 20_261_201;
const RUNS = 100;

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
  const api = apiOf(server);
  const session = await newSession(api, server.environmentId);
  const ended = await newSession(api, server.environmentId);
  await api.write(`/v1/sessions/${ended.id}/archive`);
  await api.write(`/v1/agents/${ended.agent.id}/archive`);
  Object.assign(known, {
    agent: session.agent.id,
    archived: ended.agent.id,
    environment: server.environmentId,
    session: session.id,
    ended: ended.id,
  });
  console.log(`fast-check seed ${SEED}`);
});
afterAll(() => server.close());

/** No route is asked through the document's check: what counts here is told by the status. */
async function post(path: string, body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await fetch(`${server.url}${path}`, {
    method: "POST",
    body,
    headers: { "x-api-key": API_KEY, "content-type": "application/json", ...headers },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}

/** Waits until no turn runs that an accepted message has started, and nothing of it is to be relayed. */
async function quiet(): Promise<void> {
  const busy = "select 1 from sessions where status = 'running' union all select 1 from outbox limit 1";
  await expect.poll(async () => (await server.database.pool.query(busy)).rowCount, { timeout: 10_000 }).toBe(0);
}

const ajv = new Ajv2020({ strict: false });
(addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
const document = JSON.parse(documentOfSource()) as { paths: Record<string, { post?: { requestBody?: object } }> };
ajv.addSchema(document, "openapi");

/** What the server accepts is what its document allows. */
function expectDocumented(path: string, body: string): void {
  const template = Object.keys(document.paths).find((candidate) =>
    new RegExp(`^${candidate.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`).test(path),
  );
  if (template === undefined || document.paths[template]?.post?.requestBody === undefined) return;
  const pointer = template.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll("}", "%7D");
  const validate = ajv.compile({
    $ref: `openapi#/paths/${pointer}/post/requestBody/content/application~1json/schema`,
  });
  const documented = body === "" || validate(JSON.parse(body));
  expect({ body, documented, why: ajv.errorsText(validate.errors) }).toMatchObject({ documented: true });
}

async function holds(path: string, body: string): Promise<void> {
  const before = await rowCounts(server);
  const answer = await post(path, body);
  expect({ body: body.slice(0, 500), answer: answer.text, status: answer.status }).toMatchObject({
    status: expect.toSatisfy((status: number) => status < 500),
  });
  if (answer.status < 400) {
    expectDocumented(path, body);
    return quiet();
  }
  expectEnvelope(answer);
  expect(await rowCounts(server)).toEqual(before);
}

for (const [name, route] of Object.entries(ROUTES)) {
  verifies("robustness:any-json", name, async () => {
    await fc.assert(
      fc.asyncProperty(anyBody, (body) => holds(route.path(), body)),
      { seed: SEED, numRuns: RUNS, endOnFailure: false },
    );
  });
  verifies("robustness:mutated", name, async () => {
    await fc.assert(
      fc.asyncProperty(anyChange, ([where, how, value]) =>
        holds(route.path(), JSON.stringify(mutated(route.valid(), where, how, value))),
      ),
      { seed: SEED, numRuns: RUNS, endOnFailure: false },
    );
  });
}

for (const [path, body] of [
  ["/v1/agents", { name: "A", model: "m", skills: null, tools: null, mcp_servers: null, metadata: null }],
  ["/v1/agents", { name: "A", model: { id: "m", effort: null, speed: null, inference_geo: null } }],
  [
    "/v1/agents",
    { name: "A", model: "m", description: null, system: null, multiagent: null, execution_identity: null },
  ],
  ["/v1/environments", { name: "E", config: null, description: null, metadata: null, scope: null }],
] as const) {
  verifies("robustness:document", JSON.stringify(body), () => holds(path, JSON.stringify(body)));
}
verifies("robustness:document", "a session with every field null or empty", async () => {
  const empty = { title: null, metadata: null, vault_ids: null, resources: null, initial_events: null, budget: null };
  await holds("/v1/sessions", JSON.stringify({ agent: known.agent, environment_id: known.environment, ...empty }));
});

const GETS = [
  "/v1/agents",
  "/v1/agents/ID",
  "/v1/agents/ID/versions",
  "/v1/environments",
  "/v1/sessions",
  "/v1/sessions/ID",
  "/v1/sessions/ID/events",
  "/v1/sessions/ID/threads",
  "/v1/sessions/ID/threads/ID/events",
];
const PARAMETERS = [
  "limit",
  "page",
  "order",
  "version",
  "agent_version",
  "agent_id",
  "include_archived",
  "statuses[]",
  "stop_reasons[]",
  "types[]",
  "created_at[gt]",
  "created_at[lte]",
  "created_at",
  "limit[]",
  "page[x]",
];
const queryValue = fc.oneof(
  fc.constantFrom(
    "",
    "1",
    "0",
    "-1",
    "1e3",
    "true",
    "idle",
    "asc",
    "2026-12-01T00:00:00Z",
    "9999-99-99T00:00:00Z",
    "+275760-09-13T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "99999999999999999999",
    "null",
    "bnVsbA",
    "e30",
    "W10",
  ),
  fc.string({ unit: "binary", maxLength: 20 }),
  fc.base64String({ maxLength: 60 }),
);
verifies("robustness:query", async () => {
  const ids = { agents: known.agent, sessions: known.session, threads: "sthr_nothing" };
  const query = fc.array(fc.tuple(fc.constantFrom(...PARAMETERS), queryValue), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...GETS), query, async (route, pairs) => {
      const path = route.replaceAll(
        /(agents|sessions|threads)\/ID/g,
        (_, noun: keyof typeof ids) => `${noun}/${ids[noun]}`,
      );
      const text = pairs
        .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value.toWellFormed())}`)
        .join("&");
      const response = await fetch(`${server.url}${path}?${text}`, { headers: { "x-api-key": API_KEY } });
      const body = await response.text();
      expect({ path, text, status: response.status, body }).toMatchObject({
        status: expect.toSatisfy((status: number) => status < 500),
      });
      if (response.status >= 400)
        expectEnvelope({ status: response.status, headers: response.headers, text: body, body: JSON.parse(body) });
    }),
    { seed: SEED, numRuns: 400, endOnFailure: false },
  );
});
