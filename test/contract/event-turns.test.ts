import { afterAll, beforeAll, expect } from "vitest";
import { calls, refusal, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { failure } from "../fake-model/replies.ts";
import { type Api, apiOf, type Body, TIME } from "./api.ts";
import {
  asking,
  builtin,
  isIdle,
  list,
  message,
  newSession,
  ofType,
  runTurn,
  send,
  status,
  text,
  types,
  until,
} from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const create = (tools: readonly object[] = []) => newSession(api, scripted.server.environmentId, { agent: { tools } });
/** Thread events are looked at by their own test. */
const withoutThreads = (events: readonly Body[]) => types(events).filter((type) => !type.startsWith("session.thread_"));

verifies("events:turn:sequence", async () => {
  await scripted.script(says("Hello to you."));
  const session = await create();
  const events = await runTurn(api, session, "hello");
  // Which of the first two comes first is not pinned by the reference.
  expect(withoutThreads(events).slice(0, 2).toSorted()).toEqual(["session.status_running", "user.message"]);
  expect(withoutThreads(events).slice(2)).toEqual([
    "span.model_request_start",
    "agent.message",
    "span.model_request_end",
    "session.usage",
    "session.status_idle",
  ]);
  expect(ofType(events, "agent.message")[0]?.["content"]).toEqual([text("Hello to you.")]);
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", stop_reason: { type: "end_turn" } });
  expect(await status(api, session)).toBe("idle");
});

verifies("events:turn:tools", async () => {
  await scripted.script(calls(toolUse("toolu_1", "bash", { command: "ls" })), says("Done."));
  const session = await create([builtin([asking("bash")])]);
  await send(api, session, message("list"));
  const [use] = ofType(await until(api, session, isIdle("requires_action")), "agent.tool_use");
  await send(api, session, { type: "user.tool_confirmation", tool_use_id: use?.id, result: "allow" });
  await send(api, session, { type: "user.tool_result", tool_use_id: use?.id, content: [text("a.txt")] });
  const events = await until(api, session, isIdle("end_turn"));
  const round = ["session.usage", "session.status_idle"];
  expect(withoutThreads(events).slice(2)).toEqual([
    "span.model_request_start",
    "agent.tool_use",
    "span.model_request_end",
    ...round,
    "user.tool_confirmation",
    "user.tool_result",
    "session.status_running",
    "span.model_request_start",
    "agent.message",
    "span.model_request_end",
    ...round,
  ]);
});

verifies("events:turn:thread-status", async () => {
  await scripted.script(says("Hi."));
  const session = await create();
  const events = await runTurn(api, session, "hello");
  const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
  expect(events.filter(({ type }) => type.startsWith("session.thread_"))).toMatchObject([
    { type: "session.thread_status_running", session_thread_id: thread?.id, agent_name: "Tester" },
    {
      type: "session.thread_status_idle",
      session_thread_id: thread?.id,
      agent_name: "Tester",
      stop_reason: { type: "end_turn" },
      stop_details: null,
    },
  ]);
  expect(types(events).slice(-3)).toEqual(["session.thread_status_idle", "session.usage", "session.status_idle"]);
});

verifies("events:turn:usage", async () => {
  await scripted.script(calls(toolUse("toolu_1", "bash", {})), says("Done."));
  const session = await create([builtin()]);
  await send(api, session, message("list"));
  const [use] = ofType(await until(api, session, isIdle("requires_action")), "agent.tool_use");
  await send(api, session, { type: "user.tool_result", tool_use_id: use?.id });
  const events = await until(api, session, isIdle("end_turn"));
  const idles = events.flatMap((event, at) => (isIdle()(event) ? [events[at - 1]] : []));
  expect(idles).toMatchObject([
    { type: "session.usage", usage: { input_tokens: 11, output_tokens: 7 } },
    { type: "session.usage", usage: { input_tokens: 22, output_tokens: 14 } },
  ]);
});

const spans = (events: readonly Body[]) => [
  ofType(events, "span.model_request_start").map(({ id }) => id),
  ofType(events, "span.model_request_end").map((event) => event["model_request_start_id"]),
];
verifies("events:turn:spans", async () => {
  await scripted.script(says("One."), says("Two."));
  const session = await create();
  await runTurn(api, session, "first");
  const events = await runTurn(api, session, "second");
  const [starts, ends] = spans(events);
  expect(starts).toHaveLength(2);
  expect(ends).toEqual(starts);
  const zero = { cache_read_input_tokens: 0, cache_creation_input_tokens: 0 };
  expect(ofType(events, "span.model_request_end")).toMatchObject([
    { model_usage: { input_tokens: 11, output_tokens: 7, ...zero } },
    { model_usage: { input_tokens: 11, output_tokens: 7, ...zero } },
  ]);
  for (const event of ofType(events, "span.model_request_end")) expect(event["is_error"]).not.toBe(true);
});
verifies("events:turn:spans", "also on error", async () => {
  await scripted.script(failure(400, "invalid_request_error", "No."));
  const events = await runTurn(api, await create(), "hello");
  const [starts, ends] = spans(events);
  expect(starts).toHaveLength(1);
  expect(ends).toEqual(starts);
  expect(ofType(events, "span.model_request_end")).toMatchObject([{ is_error: true }]);
});

verifies("events:turn:stop-details", async () => {
  await scripted.script(says("Hi."), refusal({ type: "refusal", category: "cyber", explanation: "No." }));
  const session = await create();
  await runTurn(api, session, "hello");
  const events = await runTurn(api, session, "something else");
  expect(events.filter(isIdle())).toMatchObject([
    { stop_reason: { type: "end_turn" }, stop_details: null },
    { stop_reason: { type: "refusal" }, stop_details: { type: "refusal", category: "cyber", explanation: "No." } },
  ]);
});

verifies("events:turn:error", async () => {
  await scripted.script(failure(400, "invalid_request_error", "No."), says("Back again."));
  const session = await create();
  const events = await runTurn(api, session, "hello");
  expect(ofType(events, "session.error")).toMatchObject([
    {
      error: { type: "model_request_failed_error", retry_status: { type: "exhausted" } },
      processed_at: expect.stringMatching(TIME),
    },
  ]);
  expect(events.at(-1)).toMatchObject({ type: "session.status_idle", stop_reason: { type: "retries_exhausted" } });
  await runTurn(api, session, "and now?");
  expect((await list(api, session)).at(-1)?.stop_reason).toEqual({ type: "end_turn" });
});
