import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { messagesOf, resultsOf, resultText, type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectError, expectRefused } from "./api.ts";
import {
  asking,
  builtin,
  called,
  confirmation,
  customTool,
  isIdle,
  list,
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
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const ALLOW = { type: "always_allow" };
const ASK = { type: "always_ask" };
const AUTO = { type: "auto" };
const NO_WEB = ["web_search", "web_fetch"].map((name) => ({ name, enabled: false }));
const mcp = { mcp_servers: [{ type: "url", name: "issues", url: "https://mcp.example/mcp" }] };
const mcpToolset = (more: object = {}) => ({ type: "mcp_toolset", mcp_server_name: "issues", ...more });
const create = (tools: readonly object[], more: object = {}) =>
  api.write("/v1/agents", { name: "A", model: "m", tools, ...more });
const refused = (tools: readonly object[], code: number, names?: string | RegExp, more: object = {}) =>
  expectRefused(scripted.server, () => api.post("/v1/agents", { name: "A", model: "m", tools, ...more }), code, names);

describe("in the agent", () => {
  verifies("permissions:defaults", async () => {
    const { tools } = await create([builtin([{ name: "bash" }]), mcpToolset({ configs: [{ name: "list" }] })], mcp);
    expect(tools).toMatchObject([
      { default_config: { permission_policy: ALLOW }, configs: [{ permission_policy: ALLOW }] },
      { default_config: { permission_policy: ASK }, configs: [{ permission_policy: ASK }] },
    ]);
  });
  verifies("permissions:precedence", async () => {
    const { tools } = await create([
      builtin([{ name: "bash", permission_policy: ALLOW }, { name: "read" }, ...NO_WEB], {
        default_config: { permission_policy: ASK },
      }),
    ]);
    expect(tools).toMatchObject([{ configs: [{ permission_policy: ALLOW }, { permission_policy: ASK }, {}, {}] }]);
  });
  verifies("permissions:custom-none", async () => {
    await refused([{ ...customTool("lookup"), permission_policy: ASK }], 400, "permission_policy");
  });
  for (const policy of [{ type: "never" }, { type: "always_allow", scope: "x" }, "always_ask", {}]) {
    verifies("permissions:policy-values", `not ${JSON.stringify(policy)}`, async () => {
      await refused([builtin([{ name: "bash", permission_policy: policy }])], 400, /permission_policy|configs/);
      await refused([builtin([], { default_config: { permission_policy: policy } })], 400, "default_config");
    });
  }
  verifies("permissions:auto-stored", async () => {
    const { tools } = await create(
      [
        builtin([{ name: "bash", permission_policy: AUTO }]),
        mcpToolset({ default_config: { permission_policy: AUTO } }),
      ],
      mcp,
    );
    expect(tools).toMatchObject([
      { configs: [{ permission_policy: AUTO }] },
      { default_config: { permission_policy: AUTO } },
    ]);
  });
  for (const name of ["web_search", "web_fetch"]) {
    for (const policy of [ASK, AUTO]) {
      verifies("permissions:web-tools", `${name} under ${policy.type}`, async () => {
        await refused(
          [builtin([{ name, enabled: true, permission_policy: policy }], { default_config: { enabled: false } })],
          422,
          name,
        );
        await refused(
          [
            builtin([...NO_WEB.filter((web) => web.name !== name), { name }], {
              default_config: { permission_policy: policy },
            }),
          ],
          422,
          name,
        );
      });
    }
    verifies("permissions:web-tools", `${name} disabled, under auto`, async () => {
      await create([builtin(NO_WEB, { default_config: { permission_policy: AUTO } })]);
    });
  }
});

const id = (event: Body | undefined) => event?.id ?? "";

describe("in a turn", () => {
  verifies("permissions:disabled", async () => {
    const tools = [builtin([{ name: "bash", enabled: false }])];
    const { session, provider, events, uses } = await called(scripted, api, tools, [
      "toolu_1",
      "bash",
      { command: "ls" },
    ]);
    expect(JSON.parse(provider.requests[0]?.body ?? "").tools.map(({ name }: Body) => name)).not.toContain("bash");
    expect(uses[0]).toMatchObject({ name: "bash", evaluated_permission: "deny" });
    expect(uses[0]).not.toHaveProperty("evaluation");
    expect(ofType(events, "agent.tool_result")).toMatchObject([{ tool_use_id: id(uses[0]), is_error: true }]);
    expect(events.at(-1)?.stop_reason).toEqual({ type: "end_turn" });
    expect(await status(api, session)).toBe("idle");
  });

  verifies("permissions:allow-event", async () => {
    const { events, uses } = await called(scripted, api, [builtin()], ["toolu_1", "bash", { command: "ls" }]);
    expect(uses[0]).toMatchObject({
      type: "agent.tool_use",
      name: "bash",
      input: { command: "ls" },
      evaluated_permission: "allow",
      evaluation: { type: "always_allow" },
    });
    expect(required(events)).toEqual([id(uses[0])]);
  });

  verifies("permissions:ask-event", async () => {
    const { session, events, uses } = await called(
      scripted,
      api,
      [builtin([asking("bash")])],
      ["toolu_1", "bash", { command: "ls" }],
    );
    expect(uses[0]).toMatchObject({ evaluated_permission: "ask", evaluation: { type: "always_ask" } });
    expect(events.at(-1)).toMatchObject({
      type: "session.status_idle",
      stop_reason: { type: "requires_action", event_ids: [id(uses[0])] },
    });
    expect(await status(api, session)).toBe("idle");
  });

  verifies("permissions:result-first", async () => {
    const { session, uses, events } = await called(scripted, api, [builtin([asking("bash")])], ["toolu_1", "bash", {}]);
    await expectRefused(scripted.server, () => post(api, session, toolResult(uses[0])), 400);
    expect(await list(api, session)).toEqual(events);
    await send(api, session, confirmation(uses[0], "allow"));
    await send(api, session, toolResult(uses[0]));
    await until(api, session, isIdle("end_turn"));
  });

  verifies("permissions:allow-then-result", async () => {
    const { session, uses, provider } = await called(
      scripted,
      api,
      [builtin([asking("bash")])],
      ["toolu_1", "bash", {}],
    );
    await send(api, session, confirmation(uses[0], "allow"));
    await sleep(300);
    expect(required(await list(api, session))).toEqual([id(uses[0])]);
    expect(await status(api, session)).toBe("idle");
    expect(provider.count).toBe(1);
    await send(api, session, toolResult(uses[0], "listing"));
    await until(api, session, isIdle("end_turn"));
    expect(resultsOf(provider, 1).map(resultText)).toEqual(["listing"]);
  });

  verifies("permissions:deny", async () => {
    const { session, uses, provider } = await called(
      scripted,
      api,
      [builtin([asking("bash")])],
      ["toolu_1", "bash", {}],
    );
    await send(api, session, confirmation(uses[0], "deny", { deny_message: "Not on Fridays." }));
    const events = await until(api, session, isIdle("end_turn"));
    expect(ofType(events, "agent.tool_result")).toMatchObject([{ tool_use_id: id(uses[0]), is_error: true }]);
    expect(JSON.stringify(ofType(events, "agent.tool_result"))).toContain("Not on Fridays.");
    expect(resultText(resultsOf(provider, 1)[0])).toContain("Not on Fridays.");
    expect(messagesOf(provider, 1)).toHaveLength(3);
  });

  verifies("permissions:deny-message", async () => {
    const { session, uses } = await called(scripted, api, [builtin([asking("bash")])], ["toolu_1", "bash", {}]);
    const wrong = confirmation(uses[0], "allow", { deny_message: "But carefully." });
    await expectRefused(scripted.server, () => post(api, session, wrong), 400, "deny_message");
    await send(api, session, confirmation(uses[0], "allow", { deny_message: null }));
  });

  const two = [
    ["toolu_1", "bash", { command: "a" }],
    ["toolu_2", "read", { file_path: "b" }],
  ] as const;
  verifies("permissions:partial", async () => {
    const tools = [builtin([asking("bash"), asking("read")])];
    const { session, uses, events, provider } = await called(scripted, api, tools, ...two);
    expect(required(events)).toEqual([id(uses[0]), id(uses[1])]);
    await send(api, session, confirmation(uses[1], "deny"));
    const partial = await until(api, session, isIdle("requires_action"), 2);
    expect(required(partial)).toEqual([id(uses[0])]);
    expect(provider.count).toBe(1);
    await send(api, session, confirmation(uses[0], "deny"));
    const all = await until(api, session, isIdle("end_turn"));
    expect(
      ofType(all, "agent.tool_result")
        .map((event) => event["tool_use_id"])
        .toSorted(),
    ).toEqual([id(uses[0]), id(uses[1])].toSorted());
    expect(provider.count).toBe(2);
  });

  verifies("permissions:batch", async () => {
    const { session, uses, provider } = await called(
      scripted,
      api,
      [builtin([asking("bash"), asking("read")])],
      ...two,
    );
    const stored = await send(
      api,
      session,
      confirmation(uses[0], "deny"),
      confirmation(uses[1], "deny", { deny_message: "No." }),
    );
    expect(stored.map((event) => event["tool_use_id"])).toEqual([id(uses[0]), id(uses[1])]);
    await until(api, session, isIdle("end_turn"));
    expect(provider.count).toBe(2);
  });

  verifies("permissions:answered", async () => {
    const { session, uses } = await called(scripted, api, [builtin([asking("bash"), asking("read")])], ...two);
    const [first] = await send(api, session, confirmation(uses[0], "allow"));
    const before = await list(api, session);
    const again = await post(api, session, confirmation(uses[0], "allow"));
    if (again.status === 200) expect(again.body.data[0]?.id).toBe(first?.id);
    else expectError(again, 409);
    expectError(await post(api, session, confirmation(uses[0], "deny")), 409);
    expect(ofType(await list(api, session), "user.tool_confirmation")).toEqual(
      ofType(before, "user.tool_confirmation"),
    );
  });
});
