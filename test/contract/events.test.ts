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
  text,
  types,
  until,
} from "./driver.ts";
import { knownGap, verifies } from "./verifies.ts";

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

/** A session whose model makes these calls and then answers; at the idle that waits for them. */
async function waiting(tools: readonly object[], ...uses: readonly Parameters<typeof toolUse>[]) {
  const provider = await scripted.script(calls(...uses.map((use) => toolUse(...use))), says("Done."));
  const session = await create(tools);
  await send(api, session, message("do it"));
  const events = await until(api, session, isIdle("requires_action"));
  return { provider, session, uses: events.filter(({ type }) => /^agent\..*tool_use$/.test(type)) };
}
const custom = (use: Body | undefined, value = "found") => ({
  type: "user.custom_tool_result",
  custom_tool_use_id: use?.id,
  content: [text(value)],
});
const result = (use: Body | undefined, value = "listing") => ({
  type: "user.tool_result",
  tool_use_id: use?.id,
  content: [text(value)],
});
const confirm = (use: Body | undefined, answer: unknown) => ({
  type: "user.tool_confirmation",
  tool_use_id: use?.id,
  result: answer,
});
const INTERRUPT = { type: "user.interrupt" };

describe("sending", () => {
  verifies("events:send:echo", async () => {
    const session = await create();
    const stored = await send(api, session, message("one"), message("two"), message("three"));
    expect(stored).toMatchObject([message("one"), message("two"), message("three")]);
    for (const event of stored) expect(event.id).toMatch(/^sevt_/);
    await until(api, session, isIdle());
  });

  verifies("events:send:queued", async () => {
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, "First answer."), says("Second answer."));
    const session = await create();
    await send(api, session, message("first"));
    await until(api, session, ({ type }) => type === "span.model_request_start");
    const [queued] = await send(api, session, message("second"));
    expect(queued?.processed_at).toBeNull();
    expect((await list(api, session)).at(-1)).toEqual(queued);
    gate.resolve();
    const events = await until(
      api,
      session,
      (event) => JSON.stringify(event["content"])?.includes("Second answer.") ?? false,
    );
    const stamped = events.find(({ id }) => id === queued?.id);
    expect(stamped).toEqual({ ...queued, processed_at: expect.stringMatching(TIME) });
    await until(api, session, isIdle());
    expect((await list(api, session)).find(({ id }) => id === queued?.id)).toEqual(stamped);
    await scripted.script();
  });

  for (const events of [
    [],
    null,
    undefined,
    {},
    message("x"),
    ["x"],
    [null],
    [{}],
    [{ type: "user.shout" }],
    [{ type: 7 }],
    [[message("x")]],
  ]) {
    verifies("events:send:envelope", JSON.stringify(events) ?? "no events", async () => {
      await refused(await create(), events, 400, "events");
    });
  }
  verifies("events:send:envelope", "unknown fields", async () => {
    const session = await create();
    const body = { events: [message("x")], stream: true };
    await expectRefused(scripted.server, () => api.post(`/v1/sessions/${session.id}/events`, body), 400, "stream");
    await refused(session, [{ ...message("x"), priority: 1 }], 400, "priority");
    await refused(session, [{ ...INTERRUPT, reason: "x" }], 400, "reason");
  });

  for (const type of [
    "agent.message",
    "agent.tool_use",
    "agent.tool_result",
    "session.status_idle",
    "session.updated",
    "session.deleted",
    "span.model_request_start",
    "event_start",
  ]) {
    verifies("events:send:server-types", type, async () => {
      await refused(await create(), [{ type, content: [text("x")] }], 400, "type");
    });
  }
  for (const field of [
    { id: "sevt_mine" },
    { processed_at: "2026-12-01T00:00:00Z" },
    { session_thread_id: "sthr_1" },
  ]) {
    verifies("events:send:own-fields", Object.keys(field)[0] ?? "", async () => {
      await refused(await create(), [{ ...message("x"), ...field }], 400, Object.keys(field)[0]);
    });
  }

  for (const [title, bad, code] of [
    ["an empty text", { type: "user.message", content: [text("")] }, 400],
    ["an unknown type", { type: "user.shout" }, 400],
    ["an unknown call", { type: "user.tool_result", tool_use_id: "sevt_nothing" }, 404],
    [
      "a feature not built",
      { type: "user.define_outcome", description: "d", rubric: { type: "text", content: "r" } },
      422,
    ],
  ] as const) {
    verifies("events:send:all-or-nothing", `${title}, last`, async () => {
      const session = await create();
      await refused(session, [message("good"), bad], code);
      expect(await list(api, session)).toEqual([]);
      expect(await status(api, session)).toBe("idle");
    });
    verifies("events:send:all-or-nothing", `${title}, first`, async () => {
      await refused(await create(), [bad, message("good")], code);
    });
  }
  verifies("events:send:all-or-nothing", "a good answer with a bad one", async () => {
    const { session, uses } = await waiting(
      [customTool("a"), customTool("b")],
      ["toolu_1", "a", {}],
      ["toolu_2", "b", {}],
    );
    await refused(session, [custom(uses[0]), { ...custom(uses[1]), custom_tool_use_id: "sevt_nothing" }], 404);
    await send(api, session, custom(uses[0]), custom(uses[1]));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:send:archived", async () => {
    const session = await create();
    await api.write(`/v1/sessions/${session.id}/archive`);
    const answer = await post(api, session, message("hello?"));
    expect([400, 409]).toContain(answer.status);
    expect(answer.body.error.message).toMatch(/archived|terminated/);
  });
});

describe("results", () => {
  verifies("events:custom-result", async () => {
    const { session, uses, provider } = await waiting([customTool("lookup")], ["toolu_1", "lookup", {}]);
    const [stored] = await send(api, session, custom(uses[0], "42"));
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
    await send(api, session, custom(uses[1]));
    await send(api, session, custom(uses[0]));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:custom-result:rules", async () => {
    const { session, uses } = await waiting(
      [customTool("lookup"), builtin()],
      ["toolu_1", "lookup", {}],
      ["toolu_2", "bash", {}],
    );
    const [lookup, bash] = uses;
    await refused(session, [custom(bash)], 400);
    await refused(session, [result(lookup)], 400);
    await refused(session, [confirm(lookup, "allow")], 400);
    await refused(session, [{ type: "user.custom_tool_result" }], 400, "custom_tool_use_id");
    await refused(session, [{ ...custom(lookup), custom_tool_use_id: "sevt_nothing" }], 404);
    await refused(await create([customTool("lookup")]), [custom(lookup)], 404);
    await send(api, session, custom(lookup), result(bash));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:tool-result", async () => {
    const { session, uses, provider } = await waiting([builtin()], ["toolu_1", "bash", { command: "ls" }]);
    const [stored] = await send(api, session, { ...result(uses[0], "a.txt"), is_error: false });
    expect(stored).toMatchObject({
      type: "user.tool_result",
      tool_use_id: uses[0]?.id,
      processed_at: expect.stringMatching(TIME),
    });
    await until(api, session, isIdle("end_turn"));
    expect(resultsOf(provider, 1).map(resultText)).toEqual(["a.txt"]);
  });

  verifies("events:tool-result:rules", async () => {
    const { session, uses } = await waiting([builtin()], ["toolu_1", "bash", {}], ["toolu_2", "read", {}]);
    const [first] = await send(api, session, result(uses[0]));
    expect(await send(api, session, result(uses[0]))).toEqual([first]);
    expectError(await post(api, session, result(uses[0], "other")), 409);
    expect(ofType(await list(api, session), "user.tool_result")).toHaveLength(1);
    await refused(session, [{ ...result(uses[1]), tool_use_id: "sevt_nothing" }], 404);
    await refused(session, [{ ...result(uses[1]), tool_use_id: "toolu_2" }], 404);
    await send(api, session, result(uses[1]));
    await until(api, session, isIdle("end_turn"));
    expect(await send(api, session, result(uses[0]))).toEqual([first]);
    expectError(await post(api, session, result(uses[1], "too late")), 409);
  });

  verifies("events:confirmation:rules", async () => {
    const { session, uses } = await waiting(
      [builtin([asking("bash")])],
      ["toolu_1", "bash", {}],
      ["toolu_2", "read", {}],
    );
    const [bash, read] = uses;
    for (const answer of ["maybe", "", null, true]) await refused(session, [confirm(bash, answer)], 400, "result");
    await refused(session, [{ type: "user.tool_confirmation", result: "allow" }], 400, "tool_use_id");
    await refused(session, [{ ...confirm(bash, "allow"), tool_use_id: "sevt_nothing" }], 404);
    const unasked = await post(api, session, confirm(read, "allow"));
    expect([400, 409]).toContain(unasked.status);
    expect(ofType(await list(api, session), "user.tool_confirmation")).toEqual([]);
    await send(api, session, confirm(bash, "deny"), result(read));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("events:thread-id", async () => {
    const { session, uses } = await waiting(
      [builtin([asking("bash")]), customTool("lookup")],
      ["toolu_1", "bash", {}],
      ["toolu_2", "lookup", {}],
    );
    const [bash, lookup] = uses;
    await refused(session, [{ ...custom(lookup), session_thread_id: "sthr_nothing" }], 400, "session_thread_id");
    const [confirmed, answered] = await send(api, session, confirm(bash, "allow"), custom(lookup));
    // No child threads yet: nothing is cross-posted, so the thread is the primary one, null.
    expect([confirmed?.["session_thread_id"] ?? null, answered?.["session_thread_id"] ?? null]).toEqual([null, null]);
    await send(api, session, result(bash));
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
    const { session, uses, provider } = await waiting(
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
    expectError(await post(api, session, custom(uses[1])), 409);
  });

  verifies("events:interrupt:thread", async () => {
    const session = await create();
    const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
    await send(api, session, { ...INTERRUPT, session_thread_id: thread?.id });
    await send(api, session, { ...INTERRUPT, session_thread_id: null });
    await refused(session, [{ ...INTERRUPT, session_thread_id: "sthr_nothing" }], 404);
  });
});

describe("other types", () => {
  verifies("events:define-outcome", async () => {
    const outcome = {
      type: "user.define_outcome",
      description: "d",
      rubric: { type: "text", content: "r" },
      max_iterations: 3,
    };
    await refused(await create(), [outcome], 422, "outcome");
  });

  const system = { type: "system.message", content: [text("Answer in Dutch.")] };
  knownGap("events:system-message", async () => {
    const session = await create();
    const stored = await send(api, session, message("hello"), system);
    expect(types(stored)).toEqual(["user.message", "system.message"]);
  });
  for (const [title, events] of [
    ["alone", [system]],
    ["before the message", [system, message("x")]],
    ["after an interrupt", [INTERRUPT, system]],
    ["twice", [message("x"), system, system]],
    [
      "with an image",
      [message("x"), { ...system, content: [{ type: "image", source: { type: "url", url: "https://a.example/x" } }] }],
    ],
    ["empty", [message("x"), { ...system, content: [] }]],
  ] as const) {
    verifies("events:system-message:rules", title, async () => {
      // Until system messages are built, a 422 that names them will do.
      const session = await create();
      const answer = await post(api, session, ...events);
      expectError(answer, answer.status === 422 ? 422 : 400, /system|events/);
      expect(await list(api, session)).toEqual([]);
    });
  }

  verifies("events:message-while-waiting", async () => {
    const { session, uses, provider } = await waiting([customTool("lookup")], ["toolu_1", "lookup", {}]);
    const answer = await post(api, session, message("never mind, what about this?"));
    await sleep(300);
    expect(provider.count).toBe(1);
    if (answer.status === 200) {
      expect(answer.body.data[0]?.processed_at).toBeNull();
      expect(required(await list(api, session))).toEqual([uses[0]?.id]);
    } else {
      expect([400, 409]).toContain(answer.status);
    }
    await send(api, session, custom(uses[0]));
    const rounds = answer.status === 200 ? 3 : 2;
    await until(api, session, ({ type }) => type === "span.model_request_end", rounds);
    await until(api, session, isIdle("end_turn"));
    expect(provider.count).toBe(rounds);
  });
});
