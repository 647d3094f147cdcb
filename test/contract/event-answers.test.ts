import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import {
  calls,
  held,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  toolUse,
} from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectError, expectRefused, TIME } from "./api.ts";
import {
  asking,
  builtin,
  called,
  confirmation,
  customResult,
  customTool,
  isIdle,
  list,
  message,
  newSession,
  ofType,
  post,
  required,
  send,
  status,
  toolResult,
  until,
} from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const create = (tools: readonly object[] = []) => newSession(api, scripted.server.environmentId, { agent: { tools } });
const refused = (session: Body, events: unknown, code: number, names?: string | RegExp) =>
  expectRefused(scripted.server, () => api.post(`/v1/sessions/${session.id}/events`, { events }), code, names);

const INTERRUPT = { type: "user.interrupt" };

describe("results", () => {
  verifies("events:custom-result", async () => {
    const { session, uses, provider } = await called(scripted, api, [customTool("lookup")], ["toolu_1", "lookup", {}]);
    const [stored] = await send(api, session, customResult(uses[0], "42"));
    expect(stored?.processed_at).toMatch(TIME);
    await until(api, session, isIdle("end_turn"));
    expect(resultsOf(provider, 1).map(resultText)).toEqual(["42"]);
  });
  verifies("events:custom-result", "before the idle", async () => {
    await scripted.script(calls(toolUse("toolu_1", "a", {}), toolUse("toolu_2", "b", {})), says("Done."));
    const session = await create([customTool("a"), customTool("b")]);
    await send(api, session, message("go"));
    const uses = ofType(
      await until(api, session, ({ type }) => type === "agent.custom_tool_use", 2),
      "agent.custom_tool_use",
    );
    await send(api, session, customResult(uses[1]));
    await send(api, session, customResult(uses[0]));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:custom-result:rules", async () => {
    const { session, uses } = await called(
      scripted,
      api,
      [customTool("lookup"), builtin()],
      ["toolu_1", "lookup", {}],
      ["toolu_2", "bash", {}],
    );
    const [lookup, bash] = uses;
    await refused(session, [customResult(bash)], 400);
    await refused(session, [toolResult(lookup)], 400);
    await refused(session, [confirmation(lookup, "allow")], 400);
    await refused(session, [{ type: "user.custom_tool_result" }], 400, "custom_tool_use_id");
    await refused(session, [{ ...customResult(lookup), custom_tool_use_id: "sevt_nothing" }], 404);
    await refused(await create([customTool("lookup")]), [customResult(lookup)], 404);
    await send(api, session, customResult(lookup), toolResult(bash));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:tool-result", async () => {
    const { session, uses, provider } = await called(
      scripted,
      api,
      [builtin()],
      ["toolu_1", "bash", { command: "ls" }],
    );
    const [stored] = await send(api, session, { ...toolResult(uses[0], "a.txt"), is_error: false });
    expect(stored).toMatchObject({
      type: "user.tool_result",
      tool_use_id: uses[0]?.id,
      processed_at: expect.stringMatching(TIME),
    });
    await until(api, session, isIdle("end_turn"));
    expect(resultsOf(provider, 1).map(resultText)).toEqual(["a.txt"]);
  });

  verifies("events:tool-result:rules", async () => {
    const { session, uses } = await called(
      scripted,
      api,
      [builtin()],
      ["toolu_1", "bash", {}],
      ["toolu_2", "read", {}],
    );
    const [first] = await send(api, session, toolResult(uses[0]));
    expect(await send(api, session, toolResult(uses[0]))).toEqual([first]);
    expectError(await post(api, session, toolResult(uses[0], "other")), 409);
    expect(ofType(await list(api, session), "user.tool_result")).toHaveLength(1);
    await refused(session, [{ ...toolResult(uses[1]), tool_use_id: "sevt_nothing" }], 404);
    await refused(session, [{ ...toolResult(uses[1]), tool_use_id: "toolu_2" }], 404);
    await send(api, session, toolResult(uses[1]));
    await until(api, session, isIdle("end_turn"));
    expect(await send(api, session, toolResult(uses[0]))).toEqual([first]);
    expectError(await post(api, session, toolResult(uses[1], "too late")), 409);
  });

  verifies("events:confirmation:rules", async () => {
    const { session, uses } = await called(
      scripted,
      api,
      [builtin([asking("bash")])],
      ["toolu_1", "bash", {}],
      ["toolu_2", "read", {}],
    );
    const [bash, read] = uses;
    for (const answer of ["maybe", "", null, true]) await refused(session, [confirmation(bash, answer)], 400, "result");
    await refused(session, [{ type: "user.tool_confirmation", result: "allow" }], 400, "tool_use_id");
    await refused(session, [{ ...confirmation(bash, "allow"), tool_use_id: "sevt_nothing" }], 404);
    const unasked = await post(api, session, confirmation(read, "allow"));
    expect([400, 409]).toContain(unasked.status);
    expect(ofType(await list(api, session), "user.tool_confirmation")).toEqual([]);
    await send(api, session, confirmation(bash, "deny"), toolResult(read));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:thread-id", async () => {
    const { session, uses } = await called(
      scripted,
      api,
      [builtin([asking("bash")]), customTool("lookup")],
      ["toolu_1", "bash", {}],
      ["toolu_2", "lookup", {}],
    );
    const [bash, lookup] = uses;
    await refused(session, [{ ...customResult(lookup), session_thread_id: "sthr_nothing" }], 400, "session_thread_id");
    const [confirmed, answered] = await send(api, session, confirmation(bash, "allow"), customResult(lookup));
    // No child threads yet: nothing is cross-posted, so the thread is the primary one, null.
    expect([confirmed?.["session_thread_id"] ?? null, answered?.["session_thread_id"] ?? null]).toEqual([null, null]);
    await send(api, session, toolResult(bash));
    await until(api, session, isIdle("end_turn"));
  });
});

describe("interrupts", () => {
  verifies("events:interrupt:running", async () => {
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, "Never said."));
    const session = await create();
    await send(api, session, message("work"));
    await until(api, session, ({ type }) => type === "span.model_request_start");
    const [interrupt] = await send(api, session, INTERRUPT);
    expect(interrupt).toMatchObject(INTERRUPT);
    await until(api, session, isIdle());
    await sleep(300);
    const events = await list(api, session);
    expect(events.filter(isIdle())).toMatchObject([{ stop_reason: { type: "end_turn" } }]);
    expect(events.at(-1)?.type).toBe("session.status_idle");
    expect(ofType(events, "span.model_request_end")).toHaveLength(1);
    expect(events.find(({ id }) => id === interrupt?.id)?.processed_at).toMatch(TIME);
    expect(await status(api, session)).toBe("idle");
    gate.resolve();
  });

  verifies("events:interrupt:idle", async () => {
    const session = await create();
    const [interrupt] = await send(api, session, INTERRUPT);
    await sleep(200);
    expect(await list(api, session)).toEqual([{ ...interrupt, processed_at: expect.stringMatching(TIME) }]);
    expect(await status(api, session)).toBe("idle");
  });

  verifies("events:interrupt:waiting", async () => {
    const { session, uses, provider } = await called(
      scripted,
      api,
      [builtin([asking("bash")]), customTool("lookup")],
      ["toolu_1", "bash", {}],
      ["toolu_2", "lookup", {}],
    );
    await send(api, session, INTERRUPT);
    const events = await until(api, session, isIdle("end_turn"));
    const closed = events.filter(({ type }) => /tool_result$/.test(type));
    expect(closed.map((event) => event["tool_use_id"] ?? event["custom_tool_use_id"]).toSorted()).toEqual(
      uses.map(({ id }) => id).toSorted(),
    );
    for (const event of closed) expect(event["is_error"]).toBe(true);
    expect(provider.count).toBe(1);
    expectError(await post(api, session, customResult(uses[1])), 409);
  });

  verifies("events:interrupt:thread", async () => {
    const session = await create();
    const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
    await send(api, session, { ...INTERRUPT, session_thread_id: thread?.id });
    await send(api, session, { ...INTERRUPT, session_thread_id: null });
    await refused(session, [{ ...INTERRUPT, session_thread_id: "sthr_nothing" }], 404);
  });
});

describe("a message instead of an answer", () => {
  verifies("events:message-while-waiting", async () => {
    const { session, uses, provider } = await called(scripted, api, [customTool("lookup")], ["toolu_1", "lookup", {}]);
    const answer = await post(api, session, message("never mind, what about this?"));
    await sleep(300);
    expect(provider.count).toBe(1);
    if (answer.status === 200) {
      expect(answer.body.data[0]?.processed_at).toBeNull();
      expect(required(await list(api, session))).toEqual([uses[0]?.id]);
    } else {
      expect([400, 409]).toContain(answer.status);
    }
    await send(api, session, customResult(uses[0]));
    const rounds = answer.status === 200 ? 3 : 2;
    await until(api, session, ({ type }) => type === "span.model_request_end", rounds);
    await until(api, session, isIdle("end_turn"));
    expect(provider.count).toBe(rounds);
  });
});
