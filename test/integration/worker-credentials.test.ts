import { afterEach, beforeEach, expect, test } from "vitest";
import { newSecret } from "../../shared/contract/ids.ts";
import { addEnvironmentKey } from "../../shared/workspaces/keys.ts";
import type { Event } from "../e2e/event-feed.ts";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { ask, confirmation, isTurnEnd, message, SessionDriver, toolResult, toolset } from "../e2e/session-driver.ts";
import { countRows, send } from "./refusals.ts";

interface Work {
  readonly id: string;
  readonly state: string;
  readonly data: { readonly type: string; readonly id: string };
  readonly secret: string | null;
}

let scripted: ScriptedServer;
let mine: SessionDriver;
let other: SessionDriver;
let use: Event;
let otherUse: Event;
let token: string;
let work: Work;
async function parked(): Promise<{ session: SessionDriver; use: Event }> {
  await scripted.script(calls(toolUse("toolu_1", "bash", { command: "ls" })), says("Done."));
  const session = await SessionDriver.open(scripted.server, { tools: [toolset(ask("write"))] });
  await session.send(message("go"));
  const [call] = await session.untilAsked();
  if (call === undefined) throw new Error("The idle named nothing.");
  return { session, use: call };
}

const environment = () => `/v1/environments/${scripted.server.environmentId}`;
const poll = async () => {
  const response = await scripted.server.request(`${environment()}/work/poll`, { key: scripted.server.environmentKey });
  const text = await response.text();
  return text === "" ? null : (JSON.parse(text) as Work | null);
};
const post = (path: string, key: string, json?: unknown) =>
  send(scripted.server, { path, key, method: "POST", ...(json !== undefined && { json }) });
const tokenOf = (item: Work) =>
  (JSON.parse(Buffer.from(item.secret ?? "", "base64url").toString()) as { sessions_token: string }).sessions_token;

beforeEach(async () => {
  scripted = await startScriptedServer();
  ({ session: mine, use } = await parked());
  const item = await poll();
  if (item === null) throw new Error("There was no work for the session that waits for a worker.");
  work = item;
  token = tokenOf(work);
  const ack = await post(`${environment()}/work/${work.id}/ack`, scripted.server.environmentKey);
  if (ack.status !== 200) throw new Error(`Not acknowledged: ${ack.status}`);
  await post(`${environment()}/work/${work.id}/heartbeat?expected_last_heartbeat=NO_HEARTBEAT`, token);
  ({ session: other, use: otherUse } = await parked());
});
afterEach(async () => {
  mine.close();
  other.close();
  await scripted.close();
});

test("work names the session that waits, and its secret opens that session", async () => {
  expect(work.data).toEqual({ type: "session", id: mine.id });
  for (const path of ["", "/events"]) {
    const response = await send(scripted.server, { path: `/v1/sessions/${mine.id}${path}`, key: token });
    expect(response.status).toBe(200);
  }
  const answer = await post(`/v1/sessions/${mine.id}/events`, token, { events: [toolResult(use, "done")] });
  expect(answer.status).toBe(200);
  await mine.until(isTurnEnd);
});

test("another session does not exist for the token of one", async () => {
  const before = await countRows(scripted.server);
  const answers = [
    await send(scripted.server, { path: `/v1/sessions/${other.id}`, key: token }),
    await send(scripted.server, { path: `/v1/sessions/${other.id}/events`, key: token }),
    await send(scripted.server, { path: `/v1/sessions/${other.id}/events/stream`, key: token }),
    await post(`/v1/sessions/${other.id}/events`, token, { events: [toolResult(otherUse, "forged")] }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  expect(await countRows(scripted.server)).toEqual(before);
});

test("the token of one session cannot answer another's call through its own", async () => {
  const answer = await post(`/v1/sessions/${mine.id}/events`, token, { events: [toolResult(otherUse, "forged")] });
  expect(answer.status).toBe(404);
});

test("the token does nothing but a worker's part: no message, no approval, no interrupt, no new session", async () => {
  const before = await countRows(scripted.server);
  const events = [message("do more"), { type: "user.interrupt" }, confirmation(use, "allow")];
  for (const event of events) {
    const answer = await post(`/v1/sessions/${mine.id}/events`, token, { events: [event] });
    expect([event.type, answer.status, await answer.text()]).toEqual([
      event.type,
      403,
      expect.stringContaining("permission_error"),
    ]);
  }
  const batch = await post(`/v1/sessions/${mine.id}/events`, token, { events: [toolResult(use, "x"), message("y")] });
  expect(batch.status).toBe(403);
  const agents = await post("/v1/agents", token, { name: "A", model: "m" });
  expect(agents.status).toBe(403);
  const sessions = await post("/v1/sessions", token, {
    agent: "agent_x",
    environment_id: scripted.server.environmentId,
  });
  expect(sessions.status).toBe(403);
  expect(await countRows(scripted.server)).toEqual(before);
});

test("the token beats and stops its own item only", async () => {
  const others = await poll();
  if (others === null) throw new Error("There was no work for the other session.");
  const beat = await post(`${environment()}/work/${others.id}/heartbeat?expected_last_heartbeat=NO_HEARTBEAT`, token);
  const stop = await post(`${environment()}/work/${others.id}/stop`, token, { force: true });
  expect([beat.status, stop.status]).toEqual([404, 404]);
});

test("an environment key knows no other environment", async () => {
  const response = await scripted.server.request("/v1/environments", {
    json: { name: "B", config: { type: "self_hosted" } },
  });
  const { id } = (await response.json()) as { id: string };
  const secret = newSecret("sk-mango-env");
  await addEnvironmentKey(scripted.server.database.pool, {
    workspaceId: "wrkspc_local",
    environmentId: id,
    name: "b",
    secret,
  });
  const foreign = await scripted.server.request(`${environment()}/work/poll`, { key: secret });
  const ack = await post(`${environment()}/work/${work.id}/ack`, secret);
  const stop = await post(`${environment()}/work/${work.id}/stop`, secret, { force: true });
  const crossed = await post(`/v1/environments/${id}/work/${work.id}/stop`, secret, { force: true });
  const ownPoll = await scripted.server.request(`/v1/environments/${id}/work/poll`, { key: secret });
  expect([foreign.status, ack.status, stop.status, crossed.status]).toEqual([404, 404, 404, 404]);
  expect(["", "null"]).toContain(await ownPoll.text());
});

test("after a stop the token opens nothing, and its late result is not stored", async () => {
  const before = await mine.list();
  await post(`${environment()}/work/${work.id}/stop`, token, { force: true });
  const answer = await post(`/v1/sessions/${mine.id}/events`, token, { events: [toolResult(use, "late")] });
  expect(answer.status).toBe(401);
  expect(await mine.list()).toEqual(before);
});

test("no secret is kept or logged", async () => {
  const { rows } = await scripted.server.database.pool.query("select * from work_items");
  expect(JSON.stringify([rows, scripted.server.logs])).not.toContain(token);
});
