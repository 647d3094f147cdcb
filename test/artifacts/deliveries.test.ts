import { readFileSync } from "node:fs";
import { SFNClient, StartExecutionCommand, StopExecutionCommand } from "@aws-sdk/client-sfn";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { calls, says, toolUse } from "../e2e/scripted-model.ts";
import { customResult, customTool, isTurnEnd, isType, message, SessionDriver, textOf } from "../e2e/session-driver.ts";
import { type DeployedServer, startDeployedServer } from "./deployed-server.ts";
import { arn } from "./region/names.ts";

/** What AWS delivers late, twice, or never: each turn is answered once all the same. */
let server: DeployedServer;
let client: SFNClient;
const PREVIOUS = "mango-dev-turn-previous";
/** Generous: on a busy machine each first invocation starts a process. */
const PATIENCE = { timeout: 90_000, interval: 100 };

beforeAll(async () => {
  server = await startDeployedServer({
    definitions: { [PREVIOUS]: readFileSync(new URL("releases/0.1.0.asl.json", import.meta.url), "utf8") },
    // Whoever asks for a look-up gets a call of the application's tool; a result is answered with its own text.
    script: ({ body }) => {
      const { messages } = JSON.parse(body) as { messages: { content: unknown }[] };
      const last = JSON.stringify(messages.at(-1)?.content);
      if (last.includes("tool_result")) return says("Looked up.");
      return last.includes("look up")
        ? calls(toolUse(`toolu_${messages.length}`, "lookup", { q: "x" }))
        : says("Done.");
    },
  });
  client = new SFNClient(server.region.stepFunctions.clientConfiguration);
}, 400_000);
afterEach(() => {
  server.region.stopped.as = "ABORTED";
});
afterAll(async () => {
  client?.destroy();
  await server?.close();
});

const open = () => SessionDriver.open(server, { tools: [customTool("lookup")] });
const outboxIsDue = () => server.region.administrator.query("update outbox set claimed_until = now() - interval '1 s'");
const turnOf = async (sessionId: string) => {
  const { rows } = await server.region.administrator.query<{ id: string; segment: number; state: string }>(
    "select id, segment, state from turns where session_id = $1",
    [sessionId],
  );
  return rows[0] ?? expect.fail("The session has no turn.");
};
const answers = async (session: SessionDriver) => (await session.list()).filter(isType("agent.message")).map(textOf);

test("F23: a throttled start is made up for by the first net, and once, however often the relay is called", async () => {
  const { events, queues, throttle } = server.region;
  const session = await open();
  throttle.on = true;
  await session.send(message("hello"));
  expect(throttle.refused).toBeGreaterThan(0);
  throttle.on = false;
  expect(queues.messages.map(({ body }) => body)).toEqual(["relay"]);
  await outboxIsDue();

  await Promise.all([events.deliver(2), events.tick()]);
  await session.until(isTurnEnd);

  expect(await answers(session)).toEqual(["Done."]);
  expect(await turnOf(session.id)).toMatchObject({ segment: 1, state: "completed" });
  session.close();
}, 180_000);

test("a Lambda that is invoked twice for each task asks the model once a round and says everything once", async () => {
  const { tasks } = server.region;
  const session = await open();
  const before = server.model.count;
  tasks.invocations = 2;
  try {
    await session.send(message("look up x"));
    const use = await session.until(isType("agent.custom_tool_use"));
    await session.send(customResult(use, "found"));
    await session.until(isTurnEnd);
  } finally {
    tasks.invocations = 1;
  }

  expect(server.model.count - before).toBe(2);
  const types = (await session.list()).map(({ type }) => type);
  expect(types.filter((type) => type === "agent.custom_tool_use")).toHaveLength(1);
  expect(await answers(session)).toEqual(["Looked up."]);
  expect(types.filter((type) => type === "span.model_request_start")).toHaveLength(2);
  session.close();
}, 180_000);

test.each(["ABORTED", "TIMED_OUT"] as const)(
  "an execution that EventBridge tells is %s is taken over",
  async (status) => {
    server.region.stopped.as = status;
    const session = await open();
    await session.send(message("look up x"));
    const use = await session.until(isType("agent.custom_tool_use"));
    await vi.waitFor(async () => expect((await turnOf(session.id)).state).toBe("parked"), PATIENCE);
    const turn = await turnOf(session.id);

    await client.send(
      new StopExecutionCommand({ executionArn: arn("states", `execution:mango-dev-turn:${turn.id}-${turn.segment}`) }),
    );
    await vi.waitFor(async () => expect((await turnOf(session.id)).segment).toBe(2), PATIENCE);
    await session.send(customResult(use, "found"));
    await session.until(isTurnEnd);

    expect(await answers(session)).toEqual(["Looked up."]);
    expect(await turnOf(session.id)).toMatchObject({ segment: 2, state: "completed" });
    session.close();
  },
  180_000,
);

test("an execution with the previous release's definition and payloads still runs to its end", async () => {
  const { throttle } = server.region;
  const session = await open();
  throttle.on = true;
  await session.send(message("look up x"));
  const { id: turnId, segment } = await turnOf(session.id);
  await client.send(
    new StartExecutionCommand({
      stateMachineArn: arn("states", `stateMachine:${PREVIOUS}`),
      name: `${turnId}-${segment}`,
      input: JSON.stringify({ turnId, segment }),
    }),
  );
  const use = await session.until(isType("agent.custom_tool_use"));
  throttle.on = false;
  await session.send(customResult(use, "found"));
  await session.until(isTurnEnd);

  expect(await answers(session)).toEqual(["Looked up."]);
  expect(await turnOf(session.id)).toMatchObject({ segment: 1, state: "completed" });
  session.close();
}, 180_000);

test("what came through the proxy left no state in a connection", () => {
  const { statements } = server.region.proxy;

  expect(statements.length).toBeGreaterThan(100);
  expect(statements.filter(({ name }) => name !== "")).toEqual([]);
  expect(statements.filter(({ text }) => LEAVES_STATE.test(text))).toEqual([]);
});

/** What pins a connection of RDS Proxy. */
const LEAVES_STATE =
  /^\s*(set|listen|unlisten|prepare|declare|discard|load)\b|set_config|pg_(try_)?advisory_lock|nextval|currval|lastval|temp(orary)? table/i;

test("one trace and the ids of its turn are in every line that a turn's function wrote", async () => {
  const { lambda } = server.region;
  const lines = lambda.logs.flatMap(({ text }) => {
    const line = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {};
    return typeof line["turn_id"] === "string" ? [line] : [];
  });

  expect(lines.length).toBeGreaterThan(0);
  for (const line of lines) {
    expect(line).toMatchObject({ service: "mango-dev", xray_trace_id: expect.stringMatching(/^1-/) });
  }
  const traces = server.model.requests.map(({ headers }) => headers["x-amzn-trace-id"]);
  expect(new Set(traces)).toEqual(
    new Set(["Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"]),
  );
});
