import { afterAll, beforeAll, describe, expect } from "vitest";
import { held, type ScriptedServer, says, startScriptedServer } from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectError, expectRefused, TIME } from "./api.ts";
import {
  called,
  customResult,
  customTool,
  isIdle,
  list,
  message,
  newSession,
  ofType,
  post,
  send,
  status,
  text,
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

describe("sending", () => {
  verifies("events:send:echo", async () => {
    const session = await create();
    const stored = await send(api, session, message("one"), message("two"), message("three"));
    expect(stored).toMatchObject([message("one"), message("two"), message("three")]);
    for (const event of stored) expect(event.id).toMatch(/^sevt_/);
    await until(api, session, isIdle());
  });

  verifies("events:send:echo", "concurrent sends store each once", async () => {
    const session = await create();
    const sent = await Promise.all(Array.from({ length: 20 }, (_, n) => send(api, session, message(`m${n}`))));
    const ids = sent.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(20);
    const events = await until(
      api,
      session,
      ({ type, processed_at }) => type === "user.message" && processed_at !== null,
      20,
    );
    expect(
      ofType(events, "user.message")
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual(ids.toSorted());
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
    const { session, uses } = await called(
      scripted,
      api,
      [customTool("a"), customTool("b")],
      ["toolu_1", "a", {}],
      ["toolu_2", "b", {}],
    );
    await refused(
      session,
      [customResult(uses[0]), { ...customResult(uses[1]), custom_tool_use_id: "sevt_nothing" }],
      404,
    );
    await send(api, session, customResult(uses[0]), customResult(uses[1]));
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
  verifies("events:system-message", async () => {
    const session = await create();
    const answer = await post(api, session, message("hello"), system);
    expect(answer.status).toBe(400);
    expect(answer.body.error.details?.error_code).toBe("model_does_not_support_mid_conversation_system");
    expect(await api.read(`/v1/sessions/${session.id}/events`)).toMatchObject({ data: [] });
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
});
