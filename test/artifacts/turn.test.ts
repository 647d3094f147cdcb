import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBundledWorker } from "../../local/bundled-worker.ts";
import { calls, says, toolUse } from "../e2e/scripted-model.ts";
import { isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "../e2e/session-driver.ts";
import { removeFolder } from "../remove-folder.ts";
import { UNCONFINED } from "../server.ts";
import { type DeployedServer, startDeployedServer } from "./deployed-server.ts";

/** The AWS edition as `cdk synth` would deploy it, in a region in miniature. */
let server: DeployedServer;

/** An address that a machine in the network would reach, and nobody else. */
const INWARDS = "http://127.0.0.1:8080/inwards";

beforeAll(async () => {
  server = await startDeployedServer({
    context: { webFetch: "managed" },
    script({ body }) {
      if (!body.includes(INWARDS)) return undefined;
      return body.includes('"tool_result"')
        ? says("It cannot be reached.")
        : calls(toolUse("toolu_page", "web_fetch", { url: INWARDS }));
    },
  });
}, 400_000);
afterAll(() => server?.close(), 60_000);

const TURN = [
  "user.message",
  "session.status_running",
  "session.thread_status_running",
  "span.model_request_start",
  "agent.message",
  "span.model_request_end",
  "session.thread_status_idle",
  "session.usage",
  "session.status_idle",
];

test("a whole turn runs through the bundles, with a stream and a tool on a worker", async () => {
  const workspaceRoot = await mkdtemp(path.join(tmpdir(), "mango-workspaces-"));
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const worker = startBundledWorker({
    ...server,
    workspaceRoot,
    tools: UNCONFINED,
    logFormat: "json",
    log,
    silent: true,
  });
  try {
    const session = await SessionDriver.open(server, { tools: [toolset()] });
    await session.send(message("run `echo from-the-worker > made.txt; cat made.txt`"));
    const result = await session.until(isType("user.tool_result"));
    await session.until(isTurnEnd);

    expect(textOf(result)).toBe("from-the-worker");
    expect(await readFile(path.join(workspaceRoot, session.id, "made.txt"), "utf8")).toBe("from-the-worker\n");
    const events = await session.list();
    expect(new Set(events.map(({ type }) => type))).toEqual(new Set([...TURN, "agent.tool_use", "user.tool_result"]));
    // The miniature's runtime has one trace for everything; the worker's log says it of each call.
    expect(events.find(isType("agent.tool_use"))).toMatchObject({ trace_id: "1-5759e988-bd862e3fe1be46a994272793" });
    session.close();
  } finally {
    await worker.stop();
    await removeFolder(workspaceRoot);
  }
}, 180_000);

test("a page is asked for by run-tool and fetched by the function outside, which dials nothing inwards", async () => {
  const { administrator, functionNamed, lambda } = server.region;
  const outside = functionNamed("FetchPage");
  const direct = await lambda.call(outside.name, { url: INWARDS, domains: [], max_characters: 100 });
  const session = await SessionDriver.open(server, { tools: [toolset()] });
  await session.send(message(`Read ${INWARDS}`));
  const result = await session.until(isType("agent.tool_result"));
  await session.until(isTurnEnd);
  session.close();
  const { rows } = await administrator.query<{ owner: string; state: string; provenance: string }>(
    "select owner, state, provenance from tool_steps where session_id = $1",
    [session.id],
  );

  const provenance = { requested_url: INWARDS, address: null, status: null, bytes: null };
  expect(direct).toMatchObject({ kind: "error", code: "address_not_allowed", provenance });
  expect(result).toMatchObject({ is_error: true });
  expect(textOf(result)).toBe("The URL does not lead to a web server on the public internet.");
  expect(rows).toMatchObject([{ owner: "platform_managed", state: "completed" }]);
  expect(JSON.parse(rows[0]?.provenance ?? "")).toMatchObject(provenance);
  expect(Object.keys(outside.variables).filter((name) => name.startsWith("MANGO_"))).toEqual([]);
}, 180_000);

test("a function that cannot read what it is asked answers the name of the failure, and no word of the request", async () => {
  const { functionNamed, lambda } = server.region;
  const asked = await lambda.invoke(functionNamed("FetchPage").name, { url: "http://a.example/of-a-tenant" });

  expect(asked).toEqual({ kind: "error", type: "ZodError", message: "The function's log says more." });
});

test("a refusal of a stream is an ordinary answer, and what no function answers the gateway does in the envelope", async () => {
  const refused = await fetch(`${server.url}/v1/sessions/sesn_none/events/stream`, { headers: { "x-api-key": "no" } });
  const unknown = await server.request("/v1/nothing");

  expect([refused.status, await refused.json()]).toMatchObject([401, { error: { type: "authentication_error" } }]);
  expect([unknown.status, await unknown.json()]).toMatchObject([404, { error: { type: "not_found_error" } }]);
});

test("a body that Lambda would not take is refused in the envelope, with the limit that stands before it", async () => {
  const body = (megabytes: number) => ({ name: "x", model: "test-1", system: "x".repeat(megabytes * 1024 * 1024) });
  const refused = await server.request("/v1/agents", { json: body(4.6) });
  const taken = await server.request("/v1/agents", { json: body(4.4) });

  expect([refused.status, await refused.json()]).toMatchObject([
    413,
    { error: { type: "request_too_large", message: "The body is larger than 4.5 MB." } },
  ]);
  // It reached the app, which has a limit of its own for this field.
  expect([taken.status, await taken.json()]).toMatchObject([
    400,
    { error: { message: expect.stringContaining("system") } },
  ]);
});

test("F26: a request succeeds although the database ended every connection while its function was frozen", async () => {
  const { administrator, proxy } = server.region;
  await server.request("/v1/agents");
  const before = proxy.tokens.length;

  const others = "from pg_stat_activity where datname = 'mango' and pid <> pg_backend_pid()";
  const { rowCount } = await administrator.query(`select pg_terminate_backend(pid) ${others}`);
  // The answer is that they were told to end, not that they have.
  await expect
    .poll(async () => (await administrator.query(`select pid ${others}`)).rows, { timeout: 20_000 })
    .toEqual([]);
  const after = await server.request("/v1/agents");

  expect(rowCount).toBeGreaterThan(0);
  expect(after.status).toBe(200);
  expect(proxy.tokens.length).toBeGreaterThan(before);
});

test("no secret and no word of a conversation is in a log", () => {
  const { lambda, secrets } = server.region;
  const logged = lambda.logs.map(({ text }) => text).join("\n");

  expect(lambda.logs.length).toBeGreaterThan(0);
  for (const secret of [...secrets, server.apiKey, server.environmentKey, "from-the-worker", INWARDS, "of-a-tenant"]) {
    expect(logged).not.toContain(secret);
  }
});
