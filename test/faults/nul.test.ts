import { afterAll, beforeAll, expect, test } from "vitest";
import {
  calls,
  reply,
  type ScriptedServer,
  says,
  startScriptedServer,
  textBlock,
  toolUse,
  userTexts,
} from "../e2e/scripted-model.ts";
import {
  answerOf,
  createSession,
  customTool,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
} from "../e2e/session-driver.ts";

// PostgreSQL stores no NUL in text. Where conversation goes it must survive; anywhere else it is a bad request, never a 500.
let scripted: ScriptedServer;
let sessionId: string;
beforeAll(async () => {
  scripted = await startScriptedServer();
  sessionId = await createSession(scripted.server, [customTool("lookup")]);
});
afterAll(() => scripted.close());

const NUL = "a\u0000b";
/** A request: its path, and its JSON body where it is a POST. Made late, because it names what `beforeAll` made. */
type Case = readonly [string, () => readonly [string, object?]];

const environment = () => ({ environment_id: scripted.server.environmentId });

test.each<Case>([
  ["a session's id", () => ["/v1/sessions/%00"]],
  ["a session's id, of its events", () => ["/v1/sessions/a%00b/events"]],
  ["a session's id, of its stream", () => ["/v1/sessions/a%00b/events/stream"]],
  ["an agent's id", () => ["/v1/agents/%00"]],
  ["an environment's id", () => ["/v1/environments/%00"]],
  ["a session's agent", () => ["/v1/sessions", { agent: NUL, ...environment() }]],
  ["a session's environment", () => ["/v1/sessions", { agent: "agent_x", environment_id: NUL }]],
  ["a message's session", () => ["/v1/sessions/a%00b/events", { events: [message("hi")] }]],
])("a NUL in %s names nothing: 404 or 400, never 500", async (_, request) => {
  const [path, json] = request();
  const answer = await answerOf(await scripted.server.request(path, json === undefined ? {} : { json }));
  expect([400, 404]).toContain(answer.status);
  expect(["invalid_request_error", "not_found_error"]).toContain(answer.error?.type);
});

test.each<Case>([
  ["an environment's name", () => ["/v1/environments", { name: NUL }]],
  [
    "a call's id in a confirmation",
    () => [events(), { events: [{ type: "user.tool_confirmation", tool_use_id: NUL, result: "allow" }] }],
  ],
  ["a call's id in a result", () => [events(), { events: [{ type: "user.tool_result", tool_use_id: NUL }] }]],
  [
    "a call's id in an application's result",
    () => [events(), { events: [{ type: "user.custom_tool_result", custom_tool_use_id: NUL }] }],
  ],
  ["a thread's id in an interrupt", () => [events(), { events: [{ type: "user.interrupt", session_thread_id: NUL }] }]],
  ["a filter", () => [`${events()}?types[]=%00`]],
  ["a cursor", () => [`${events()}?page=${Buffer.from('["\\u0000"]').toString("base64url")}`]],
])("a NUL in %s is the client's mistake: 400 or 404, never 500", async (_, request) => {
  const [path, json] = request();
  const answer = await answerOf(await scripted.server.request(path, json === undefined ? {} : { json }));
  expect([400, 404]).toContain(answer.status);
});

function events(): string {
  return `/v1/sessions/${sessionId}/events`;
}

test("nothing of this was logged as a failure of ours", () => {
  expect(scripted.server.logs.filter(({ level }) => level === "error")).toEqual([]);
});

test("a NUL in what people and models say survives both ways", async () => {
  const provider = await scripted.script(
    reply("tool_use", textBlock(`I say ${NUL}.`), toolUse("toolu_1", "lookup", { q: NUL })),
    says("Heard."),
  );
  const session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message(`You say ${NUL}.`));
  const said = await session.until(isType("agent.message"));
  const [use] = await session.untilAsked();
  await session.send({
    type: "user.custom_tool_result",
    custom_tool_use_id: use?.id,
    content: [{ type: "text", text: `It says ${NUL}.` }],
  });
  await session.until(isTurnEnd);

  expect([textOf(said), use?.input]).toEqual([`I say ${NUL}.`, { q: NUL }]);
  expect(userTexts(provider, 0)).toEqual([`You say ${NUL}.`]);
  expect(provider.requests[1]?.body).toContain("I say a\\u0000b.");
  expect(provider.requests[1]?.body).toContain("It says a\\u0000b.");
  session.close();
});

test("a NUL in the name of a tool is no name: the answer is asked for again", async () => {
  const provider = await scripted.script(calls(toolUse("toolu_1", "look\u0000up", { q: "x" })), says("Sorry."));
  const session = await SessionDriver.open(scripted.server, { tools: [customTool("lookup")] });
  await session.send(message("go"));
  await session.until(isType("session.error"));
  await session.until(isTurnEnd);
  expect(provider.count).toBe(2);
  session.close();
});
