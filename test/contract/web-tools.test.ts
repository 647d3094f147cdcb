/** Web tools of deployments that can run them; those that cannot are in permissions.test.ts. */
import { afterAll, beforeAll, expect } from "vitest";
import { parseProfile } from "../../shared/model/capability-profile.ts";
import { reply, type ScriptedServer, says, startScriptedServer, textBlock } from "../e2e/scripted-model.ts";
import { type Api, apiOf, expectRefused } from "./api.ts";
import {
  asking,
  builtin,
  called,
  confirmation,
  isIdle,
  newSession,
  ofType,
  required,
  runTurn,
  send,
  until,
} from "./driver.ts";
import { verifies } from "./verifies.ts";

const PROFILE = parseProfile('{"version":"v1","native_web_search":true,"preserves_unknown_content_blocks":true}');
const AUTO = { type: "auto" };

let scripted: ScriptedServer;
let api: Api;
let fetched: string[];
beforeAll(async () => {
  fetched = [];
  scripted = await startScriptedServer({
    profile: PROFILE,
    tools: {
      manages: ["web_fetch"],
      run: async ({ input }) => {
        fetched.push(input);
        return { content: '[{"type":"text","text":"A page."}]', isError: false };
      },
    },
  });
  api = apiOf(scripted.server);
});
afterAll(() => scripted.close());

const only = (...configs: readonly object[]) => builtin(configs, { default_config: { enabled: false } });

verifies("permissions:web-managed", "ask", async () => {
  const tools = [only({ ...asking("web_fetch"), enabled: true })];
  const call = ["toolu_1", "web_fetch", { url: "https://a.example/1" }] as const;
  const { session, events, uses } = await called(scripted, api, tools, call);
  expect(uses).toMatchObject([{ evaluated_permission: "ask", evaluation: { type: "always_ask" } }]);
  expect(required(events)).toEqual([uses[0]?.id]);
  expect(fetched).toEqual([]);
  await send(api, session, confirmation(uses[0], "allow"));
  const ledger = await until(api, session, isIdle("end_turn"));
  expect(ofType(ledger, "agent.tool_result")).toMatchObject([
    { tool_use_id: uses[0]?.id, is_error: false, content: [{ type: "text", text: "A page." }] },
  ]);
  expect(fetched).toEqual(['{"url":"https://a.example/1"}']);
});

verifies("permissions:web-managed", "auto, by name and by default; web_search must be off", async () => {
  await api.write("/v1/agents", {
    name: "A",
    model: "m",
    tools: [only({ name: "web_fetch", permission_policy: AUTO })],
  });
  const off = { name: "web_search", enabled: false };
  const byDefault = { default_config: { permission_policy: AUTO } };
  await newSession(api, scripted.server.environmentId, { agent: { tools: [builtin([off], byDefault)] } });
  const create = () => api.post("/v1/agents", { name: "A", model: "m", tools: [builtin([], byDefault)] });
  await expectRefused(scripted.server, create, 422, "web_search");
});

verifies("permissions:web-unclaimed", async () => {
  const unclaimed = await startScriptedServer();
  try {
    const bare = apiOf(unclaimed.server);
    for (const name of ["web_search", "web_fetch"]) {
      const agent = await bare.write("/v1/agents", { name: "A", model: "m", tools: [only({ name, enabled: true })] });
      const body = { agent: agent.id, environment_id: unclaimed.server.environmentId };
      await expectRefused(
        unclaimed.server,
        () => bare.post("/v1/sessions", body),
        422,
        new RegExp(`${name}.*native_${name}`),
      );
    }
    const provider = await unclaimed.script(says("Hi."));
    const session = await newSession(bare, unclaimed.server.environmentId, { agent: { tools: [builtin()] } });
    await runTurn(bare, session, "hello");
    expect(provider.requests[0]?.body).not.toContain("web_");
  } finally {
    await unclaimed.close();
  }
});

verifies("events:native-tools", async () => {
  const call = '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"ferries"}}';
  const found =
    '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"Ferries","url":"https://a.example/","encrypted_content":"Eqg"}]}';
  await scripted.script(reply("end_turn", { start: call }, { start: found }, textBlock("Hourly.")));
  const session = await newSession(api, scripted.server.environmentId, { agent: { tools: [builtin()] } });
  const events = await runTurn(api, session, "When?");
  const [use] = ofType(events, "agent.tool_use");
  expect(use).toMatchObject({
    name: "web_search",
    input: { query: "ferries" },
    evaluated_permission: "allow",
    evaluation: { type: "always_allow" },
  });
  expect(ofType(events, "agent.tool_result")).toMatchObject([
    { tool_use_id: use?.id, content: [{ type: "text", text: "Ferries\nhttps://a.example/" }] },
  ]);
  expect(JSON.stringify(events)).not.toMatch(/srvtoolu|encrypted|Eqg/);
});
