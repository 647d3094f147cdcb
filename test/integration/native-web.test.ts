import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type CapabilityProfile, parseProfile } from "../../shared/model/capability-profile.ts";
import {
  calls,
  reply,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  textBlock,
  toolUse,
} from "../e2e/scripted-model.ts";
import { isIdle, isTurnEnd, isType, message, SessionDriver, textOf, toolset } from "../e2e/session-driver.ts";
import { events, type FakeReply, failure } from "../fake-model/replies.ts";

const PROFILE = parseProfile(
  '{"version":"gateway-7","native_web_search":true,"native_web_fetch":true,"preserves_unknown_content_blocks":true,"max_request_bytes":100000}',
);
const TOOLS = [
  {
    ...toolset({ name: "web_search", enabled: true, allowed_domains: ["a.example"] }),
    default_config: { enabled: false },
  },
];

let scripted: ScriptedServer;
let session: SessionDriver;
beforeAll(async () => {
  scripted = await startScriptedServer({ profile: PROFILE });
});
afterEach(() => session.close());
afterAll(() => scripted.close());

async function search(...replies: readonly FakeReply[]) {
  const provider = await scripted.script(...replies);
  session = await SessionDriver.open(scripted.server, { tools: TOOLS });
  await session.send(message("When do the ferries run?"));
  return provider;
}

const query = async (sql: string) => (await scripted.server.database.pool.query(sql, [session.id])).rows;

// As providers send them: numbers that JavaScript rounds, fields that nobody knows, escapes, null, encrypted text.
const CALL =
  '{"type":"server_tool_use","id":"srvtoolu_01","name":"web_search","caller":{"type":"direct"},"z":1.0,"input":{"query":"ferry \\u00e9\\/","n":12345678901234567890}}';
const RESULT =
  '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01","content":[{"type":"web_search_result","title":"Ferries","url":"https://a.example/ferries","encrypted_content":"EqgfCioIARgBIiQ3YTAw+/=","page_age":null,"rank":1e2}],"cache_control":{"type":"ephemeral","ttl":"5m"},"unknown":{"2":1,"1":2}}';
const CITATION =
  '{"type":"web_search_result_location","cited_text":"Every hour","url":"https://a.example/ferries","title":"Ferries","encrypted_index":"Eo8BCioIAhgBIiQy+/="}';
const CITED = `{"type":"text","text":"Hourly.","citations":[${CITATION}]}`;

const start = (index: number, block: string) =>
  `{"type":"content_block_start","index":${index},"content_block":${block}}`;
const delta = (index: number, value: string) => `{"type":"content_block_delta","index":${index},"delta":${value}}`;
const FOUND = events(
  '{"type":"message_start","message":{"model":"test-1","usage":{"input_tokens":11}}}',
  start(0, CALL),
  start(1, RESULT),
  start(2, '{"type":"text","text":"","citations":[]}'),
  delta(2, '{"type":"text_delta","text":"Hourly."}'),
  delta(2, `{"type":"citations_delta","citation":${CITATION}}`),
  '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7,"server_tool_use":{"web_search_requests":1,"web_fetch_requests":2}}}',
  '{"type":"message_stop"}',
);

describe("a search inside the model request", () => {
  test("is declared in its pinned version with the agent's settings, and its blocks go back byte for byte (F10, F11, F31)", async () => {
    const provider = await search(FOUND, says("You are welcome."));
    await session.until(isTurnEnd);
    expect(provider.requests[0]?.body).toContain(
      '"tools":[{"type":"web_search_20260318","name":"web_search","allowed_callers":["direct"],"allowed_domains":["a.example"]}]',
    );
    await session.send(message("Thanks."));
    await session.until(isTurnEnd);
    expect(provider.requests[1]?.body).toContain(`{"role":"assistant","content":[${CALL},${RESULT},${CITED}]}`);
  });

  test("called as if it were ours is denied without evaluation, and the turn goes on", async () => {
    const provider = await search(calls(toolUse("toolu_1", "web_search", { query: "x" })), says("Then without."));
    await session.until(isTurnEnd);
    const ledger = await session.list();
    const use = ledger.find(isType("agent.tool_use"));
    expect(use).toMatchObject({ name: "web_search", evaluated_permission: "deny" });
    expect(use).not.toHaveProperty("evaluation");
    expect(resultText(resultsOf(provider, 1)[0])).toBe("Permission to use web_search has been denied.");
    const starts = ledger.filter(isType("span.model_request_start")).map(({ id }) => id);
    expect(ledger.filter(isType("span.model_request_end")).map((event) => event.model_request_start_id)).toEqual(
      starts,
    );
  });

  test("shows as a call that was allowed and its bounded result, before the message; nothing private shows", async () => {
    await search(FOUND);
    await session.until(isTurnEnd);
    const ledger = await session.list();
    const shown = ledger.filter(({ type }) => /^agent\./.test(type));
    const [use] = shown;
    expect(shown).toMatchObject([
      {
        type: "agent.tool_use",
        name: "web_search",
        input: { query: "ferry é/" },
        evaluated_permission: "allow",
        evaluation: { type: "always_allow" },
      },
      {
        type: "agent.tool_result",
        tool_use_id: use?.id,
        is_error: false,
        content: [{ type: "text", text: "Ferries\nhttps://a.example/ferries" }],
      },
      { type: "agent.message" },
    ]);
    expect(JSON.stringify(ledger)).not.toMatch(/srvtoolu|encrypted|EqgfCioI|Eo8BCioI|cache_control/);
  });

  test("is counted, and its ids are in the journal: nobody is waited for", async () => {
    await search(FOUND);
    await session.until(isTurnEnd);
    const answer = await scripted.server.request(`/v1/sessions/${session.id}`);
    expect(((await answer.json()) as { usage: object }).usage).toMatchObject({
      server_tool_use: { web_search_requests: 1, web_fetch_requests: 2 },
    });
    expect(await query("select provider_request_id from provider_calls where session_id = $1")).toEqual([
      { provider_request_id: "req_fake" },
    ]);
    expect(
      await query("select owner, permission, state, provider_tool_use_id from tool_steps where session_id = $1"),
    ).toEqual([
      { owner: "provider_native", permission: "allow", state: "completed", provider_tool_use_id: "srvtoolu_01" },
    ]);
    expect(await query("select 1 from pending_actions where session_id = $1")).toEqual([]);
    expect(
      await query(
        "select distinct tool_version, profile_version from transcript_entries where session_id = $1 and role = 'assistant'",
      ),
    ).toEqual([{ tool_version: "agent_toolset_20260401+web_search_20260318", profile_version: "messages/gateway-7" }]);
  });

  test("that fails inside is an error result and no failed request", async () => {
    const failed =
      '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}';
    const provider = await search(
      reply("end_turn", { start: CALL }, { start: failed }, textBlock("No luck.")),
      says("."),
    );
    await session.until(isTurnEnd);
    const ledger = await session.list();
    expect(ledger.find(isType("agent.tool_result"))).toMatchObject({
      is_error: true,
      content: [{ type: "text", text: "Error: max_uses_exceeded" }],
    });
    expect(ledger.filter(isType("session.error"))).toEqual([]);
    await session.send(message("Again."));
    await session.until(isTurnEnd);
    expect(provider.requests[1]?.body).toContain(failed);
  });

  test("whose request fails over HTTP is an error of the session and no result", async () => {
    const provider = await search(failure(400, "invalid_request_error", "web_search is off"));
    await session.until(isIdle("retries_exhausted"));
    const ledger = await session.list();
    expect(ledger.filter(isType("agent.tool_result"))).toEqual([]);
    expect(ledger.find(isType("session.error"))).toMatchObject({ error: { type: "model_request_failed_error" } });
    expect(provider.count).toBe(1);
  });
});

describe("a search that pauses", () => {
  const paused = () => reply("pause_turn", textBlock("Looking."), { start: CALL });

  test("goes on with unchanged blocks; its result is published once, when it comes", async () => {
    const provider = await search(paused(), reply("end_turn", { start: RESULT }, textBlock("Hourly.")), says("."));
    await session.until(isTurnEnd);
    expect(provider.requests[1]?.body).toContain(
      `{"role":"assistant","content":[{"type":"text","text":"Looking."},${CALL}]}],"stream":true}`,
    );
    const ledger = await session.list();
    const [use, ...more] = ledger.filter(isType("agent.tool_use"));
    expect(more).toEqual([]);
    expect(ledger.filter(isType("agent.tool_result"))).toMatchObject([{ tool_use_id: use?.id, is_error: false }]);
    expect(ledger.filter(isType("agent.message")).map(textOf)).toEqual(["Looking.", "Hourly."]);

    await session.send(message("Thanks."));
    await session.until(isTurnEnd);
    expect(provider.requests[2]?.body).toContain(`${CALL},${RESULT},{"type":"text","text":"Hourly."}`);
  });

  test("and is interrupted has an answer in the ledger, and does not spoil the requests after it (F01)", async () => {
    const provider = await search(paused(), failure(529, "overloaded_error", "Busy"), says("Fine."));
    await session.until(isType("session.status_rescheduled"));
    await session.send({ type: "user.interrupt" });
    await session.until(isTurnEnd);
    const ledger = await session.list();
    const use = ledger.find(isType("agent.tool_use"));
    expect(ledger.filter(isType("agent.tool_result"))).toMatchObject([
      {
        tool_use_id: use?.id,
        is_error: true,
        content: [{ type: "text", text: "The turn ended before this call had a result." }],
      },
    ]);
    await session.send(message("Never mind."));
    await session.until(isTurnEnd);
    expect(provider.requests.at(-1)?.body).not.toContain("server_tool_use");
    expect(provider.requests.at(-1)?.body).toContain('{"type":"text","text":"Looking."}');
  });
});

describe("the profile of a session", () => {
  test("is the one that it was created with, whatever the server is started with later", async () => {
    await search(says("Hello."));
    await session.until(isTurnEnd);
    const { id } = session;
    session.close();
    await scripted.server.stopServer();
    const profile: CapabilityProfile = parseProfile('{"version":"claims-nothing"}');
    const restarted = await startScriptedServer({ profile, database: scripted.server.database });
    try {
      const provider = await restarted.script(says("Still here."));
      session = await SessionDriver.resume(restarted.server, id);
      await session.send(message("And now?"));
      await session.until((event) => textOf(event) === "Still here.");
      expect(provider.requests[0]?.body).toContain('"type":"web_search_20260318"');
    } finally {
      session.close();
      await restarted.close();
    }
    scripted = await startScriptedServer({ profile: PROFILE });
  });

  test("has a hard ceiling: a larger request is not sent, and the turn ends with an error", async () => {
    const provider = await scripted.script(says("Never asked."));
    session = await SessionDriver.open(scripted.server, { tools: TOOLS });
    await session.send(message("x".repeat(100_001)));
    await session.until(isIdle("retries_exhausted"));
    expect((await session.list()).find(isType("session.error"))).toMatchObject({
      error: {
        message: "The conversation has grown over what a model request may hold (100000 bytes).",
        retry_status: { type: "exhausted" },
      },
    });
    expect(provider.count).toBe(0);
  });
});
