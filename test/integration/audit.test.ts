import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditMismatch, listRequests, rebuildRequest } from "../../shared/context/rebuild.ts";
import { listJudgments, rebuildJudgment } from "../../shared/permissions/rebuild-judgment.ts";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { customResult, customTool, isTurnEnd, message, SessionDriver, toolset } from "../e2e/session-driver.ts";

let scripted: ScriptedServer;
beforeAll(async () => {
  scripted = await startScriptedServer();
});
afterAll(() => scripted.close());

test("every request of a session, later rounds included, is rebuilt byte for byte from its recipe", async () => {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "lookup", '{"2":1,"n":12345678901234567890}')),
    says("Found it."),
    says("And again."),
  );
  const session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("look it up"));
  const [use] = await session.untilAsked();
  if (use === undefined) throw new Error("No call was published.");
  await session.send(customResult(use, "forty-two"));
  await session.until(isTurnEnd);
  // What is pinned changes between the turns; the old requests keep theirs.
  const changed = await scripted.server.request(`/v1/sessions/${session.id}`, {
    json: { agent: { tools: [customTool("lookup"), customTool("store")] } },
  });
  expect(changed.status).toBe(200);
  await session.send(message("once more"));
  await session.until(isTurnEnd);
  session.close();

  const { pool } = scripted.server.database;
  const requests = await listRequests(pool, session.id);
  expect(requests.map(({ number, turn, round, attempt }) => [number, turn, round, attempt])).toEqual([
    [1, 1, 1, 1],
    [2, 1, 2, 1],
    [3, 2, 1, 1],
  ]);
  for (const { number } of requests) {
    const rebuilt = await rebuildRequest(pool, { sessionId: session.id, number, actor: "tester" });
    expect(rebuilt?.body).toBe(provider.requests[number - 1]?.body);
  }
  const { rows } = await pool.query(
    "select actor, action from audit_records where session_id = $1 order by created_at",
    [session.id],
  );
  expect(rows.map((row) => row.actor)).toEqual(["tester", "tester", "tester"]);
  expect(rows[0].action).toMatch(/^read request 1 \(pcall_/);
});

test("the request of a judgment is rebuilt too, though the conversation has gone on; one that was not made is nothing", async () => {
  const auto = { name: "bash", permission_policy: { type: "auto" } };
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "bash", { command: "ls" })),
    says('{"permission":"deny","reason_code":"high_risk"}'),
    says("I may not."),
    says("Hello again."),
  );
  const session = await SessionDriver.open(scripted.server, { tools: [toolset(auto)] });
  await session.send(message("look around"));
  await session.until(isTurnEnd);
  await session.send(message("and now?"));
  await session.until(isTurnEnd);
  session.close();

  const { pool } = scripted.server.database;
  const [judgment, ...more] = await listJudgments(pool, session.id);
  expect(more).toEqual([]);
  expect(judgment).toMatchObject({ tool: "bash", permission: "deny", standing: "receipt", fallback: null });
  const look = { sessionId: session.id, actor: "tester" };
  const rebuilt = await rebuildJudgment(pool, { ...look, id: judgment?.id ?? "" });
  expect(rebuilt?.body).toBe(provider.requests[1]?.body);
  expect(await rebuildJudgment(pool, { ...look, id: "peval_none" })).toBeNull();
  const { rows } = await pool.query("select actor, action from audit_records where session_id = $1", [session.id]);
  expect(rows).toEqual([{ actor: "tester", action: `read judgment ${judgment?.id}` }]);
});

test("a request that was never made is nothing, and leaves no record", async () => {
  const { pool } = scripted.server.database;
  expect(await rebuildRequest(pool, { sessionId: "sesn_unknown", number: 1, actor: "tester" })).toBeNull();
});

test("a recipe and a transcript that no longer agree are told, not printed", async () => {
  await scripted.script(says("Hello."));
  const session = await SessionDriver.open(scripted.server);
  await session.send(message("hi"));
  await session.until(isTurnEnd);
  session.close();
  const { pool } = scripted.server.database;
  await pool.query("alter table context_snapshots disable trigger all");
  await pool.query("update context_snapshots set request_digest = '\\x00' where session_id = $1", [session.id]);
  await pool.query("alter table context_snapshots enable trigger all");
  await expect(rebuildRequest(pool, { sessionId: session.id, number: 1, actor: "tester" })).rejects.toThrow(
    AuditMismatch,
  );
});
