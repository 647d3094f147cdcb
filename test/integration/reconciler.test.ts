import { afterEach, expect, test } from "vitest";
import { executionLost, reconcile } from "../../shared/turns/reconcile.ts";
import {
  ask,
  confirmation,
  customResult,
  customTool,
  isIdle,
  isTurnEnd,
  message,
  SessionDriver,
  toolset,
} from "../e2e/session-driver.ts";
import { startTestServer, type TestServer } from "../server.ts";

let server: TestServer;
afterEach(() => server.close());

async function turnOf(sessionId: string): Promise<{ id: string; segment: number; state: string }> {
  const { rows } = await server.database.pool.query(
    "select id, segment, state from turns where session_id = $1 order by ordinal desc limit 1",
    [sessionId],
  );
  return rows[0];
}

test("every execution is lost while a turn waits: at the next start it goes on, and the answer ends it", async () => {
  server = await startTestServer();
  const session = await SessionDriver.open(server, { tools: [customTool("lookup")] });
  await session.send(message("lookup something"));
  const [use] = await session.untilAsked();
  if (use === undefined) throw new Error("No call was published.");
  session.close();
  await server.stopServer();
  await server.database.pool.query("drop schema stepfunctions cascade");

  server = await startTestServer({ database: server.database });
  await expect.poll(() => turnOf(session.id)).toMatchObject({ segment: 2, state: "parked" });
  const again = await SessionDriver.resume(server, session.id);
  await again.send(customResult(use, "here it is"));
  await again.until(isTurnEnd);
  again.close();
});

test("a turn whose executions are lost again and again is ended after five takeovers, and the session stays usable", async () => {
  server = await startTestServer();
  const session = await SessionDriver.open(server, { tools: [toolset(ask("bash"))] });
  await session.send(message("run `ls`"));
  await session.untilAsked();
  for (let loss = 0; loss < 6; loss += 1) {
    const { id, segment } = await turnOf(session.id);
    await executionLost(server.product, { turnId: id, segment });
  }
  await session.until(isIdle("retries_exhausted"));
  expect(await turnOf(session.id)).toMatchObject({ segment: 6, state: "exhausted" });
  await session.send(message("hello"));
  await session.until(isTurnEnd);
  session.close();
});

test("a turn whose execution lives, or that nobody owns any more, is left alone", async () => {
  server = await startTestServer();
  const session = await SessionDriver.open(server, { tools: [toolset(ask("bash"))] });
  await session.send(message("run `ls`"));
  const [use] = await session.untilAsked();
  if (use === undefined) throw new Error("No call was published.");
  expect(await reconcile(server.product, { idleSeconds: 0 })).toBe(0);
  const { id } = await turnOf(session.id);
  await executionLost(server.product, { turnId: id, segment: 0 });
  expect(await turnOf(session.id)).toMatchObject({ segment: 1, state: "parked" });
  await session.send(confirmation(use, "deny"));
  await session.until(isTurnEnd);
  session.close();
});
