import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import { type Answer, type Api, apiOf, type Body, expectError, expectRefused } from "./api.ts";
import { list, message, newSession } from "./driver.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
let session: Body;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
  session = await newSession(api, server.environmentId);
});
afterAll(() => server.close());

const AGENT = { name: "A", model: "m" };
/** A request as the test spells it out: no key, no content type of ours. */
async function raw(path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(`${server.url}${path}`, init);
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Body };
}
const keyed = (headers: Readonly<Record<string, string>>) => ({ "x-api-key": API_KEY, ...headers });
const JSON_TYPE = { "content-type": "application/json" };

describe("bodies", () => {
  for (const [path, body, names] of [
    ["/v1/agents", { ...AGENT, modle: "m" }, "modle"],
    ["/v1/agents", { ...AGENT, model: { id: "m", temperature: 1 } }, "temperature"],
    ["/v1/agents", { ...AGENT, tools: [{ type: "agent_toolset_20260401", tools: [] }] }, "tools"],
    [
      "/v1/agents",
      { ...AGENT, tools: [{ type: "agent_toolset_20260401", default_config: { enable: true } }] },
      "enable",
    ],
    [
      "/v1/agents",
      { ...AGENT, tools: [{ type: "agent_toolset_20260401", configs: [{ name: "bash", timeout: 1 }] }] },
      "timeout",
    ],
    [
      "/v1/agents",
      { ...AGENT, mcp_servers: [{ type: "url", name: "x", url: "https://a.example", headers: {} }] },
      "headers",
    ],
    ["/v1/environments", { name: "E", config: { type: "self_hosted", image: "x" } }, "image"],
    ["/v1/sessions", { agent: "a", environment_id: "e", titel: "x" }, "titel"],
    ["/v1/sessions", { agent: { type: "agent", id: "a", tools: [] }, environment_id: "e" }, "tools"],
  ] as const) {
    verifies("transport:body:unknown-fields", names, async () => {
      await expectRefused(server, () => api.post(path, body), 400, names);
    });
  }
  for (const key of ["__proto__", "constructor", "toString"]) {
    verifies("transport:body:unknown-fields", key, async () => {
      const init = {
        method: "POST",
        headers: keyed(JSON_TYPE),
        body: `{"name":"A","model":"m",${JSON.stringify(key)}:{"x":1}}`,
      };
      await expectRefused(server, () => raw("/v1/agents", init), 400);
    });
  }

  for (const body of ["", "{", "not json", "{'name':'A'}", '{"name":"A","model":"m"}}', "\u0000", "[".repeat(50_000)]) {
    verifies("transport:body:malformed", JSON.stringify(body.slice(0, 20)), async () => {
      await expectRefused(server, () => raw("/v1/agents", { method: "POST", headers: keyed(JSON_TYPE), body }), 400);
    });
  }
  for (const body of ["null", "[]", '"text"', "7", "true", '[{"name":"A","model":"m"}]']) {
    verifies("transport:body:not-an-object", body, async () => {
      for (const path of [
        "/v1/agents",
        "/v1/environments",
        "/v1/sessions",
        `/v1/sessions/${session.id}`,
        `/v1/sessions/${session.id}/events`,
      ]) {
        await expectRefused(server, () => raw(path, { method: "POST", headers: keyed(JSON_TYPE), body }), 400);
      }
    });
  }
  verifies("transport:body:not-an-object", "none at all", async () => {
    for (const path of ["/v1/agents", "/v1/environments", "/v1/sessions", `/v1/sessions/${session.id}/events`]) {
      await expectRefused(server, () => api.post(path), 400);
    }
  });

  for (const type of [
    undefined,
    "text/plain",
    "application/x-www-form-urlencoded",
    "application/json; charset=utf-8",
    "application/vnd.api+json",
  ]) {
    verifies("transport:body:content-type", type ?? "none", async () => {
      const send = (path: string, body: object) =>
        raw(path, {
          method: "POST",
          headers: keyed(type === undefined ? {} : { "content-type": type }),
          body: Buffer.from(JSON.stringify(body)),
        });
      const created = await send("/v1/agents", { ...AGENT, name: "Typed" });
      if (created.status === 200) expect(created.body.name).toBe("Typed");
      else expect([400, 415]).toContain(created.status);
      // An update whose body is overlooked would answer 200 and do nothing.
      const updated = await send(`/v1/sessions/${session.id}`, { title: `as ${type}` });
      if (updated.status === 200) expect(updated.body["title"]).toBe(`as ${type}`);
      else expect([400, 415]).toContain(updated.status);
      if (type?.startsWith("application/json")) expect([created.status, updated.status]).toEqual([200, 200]);
    });
  }
  verifies("transport:body:content-type", "a chunked body", async () => {
    const body = new Blob([JSON.stringify({ ...AGENT, name: "Chunked" })]).stream();
    const answer = await raw("/v1/agents", {
      method: "POST",
      headers: keyed(JSON_TYPE),
      body,
      duplex: "half",
    } as RequestInit);
    expect([answer.status, answer.body.name]).toEqual([200, "Chunked"]);
  });

  verifies("transport:body:bodyless-post", async () => {
    const agent = await api.write("/v1/agents", AGENT);
    for (const headers of [keyed({}), keyed(JSON_TYPE)]) {
      expect((await raw(`/v1/agents/${agent.id}/archive`, { method: "POST", headers })).status).toBe(200);
    }
    const environment = await api.write("/v1/environments", { name: "E" });
    expect((await raw(`/v1/environments/${environment.id}`, { method: "DELETE", headers: keyed({}) })).status).toBe(
      200,
    );
  });

  for (const [title, text, code] of [
    ["every plane", "é 漢字 \u{1F96D} \u202E \uFEFF \u0001", 200],
    ["escapes", 'a\\u0000b "quoted" \\n \\', 200],
    ["NUL", "a\u0000b", 400],
    ["a lone surrogate", "a\uD800b", 400],
  ] as const) {
    verifies("transport:body:text", title, async () => {
      const agent = await api.post("/v1/agents", { ...AGENT, name: text, metadata: { [text]: text } });
      if (code === 200 || agent.status === 200)
        expect(agent.body).toMatchObject({ name: text, metadata: { [text]: text } });
      else expectError(agent, 400);
      const own = await newSession(api, server.environmentId);
      const sent = await api.post(`/v1/sessions/${own.id}/events`, { events: [message(text)] });
      if (code === 200 || sent.status === 200)
        expect((await list(api, own)).find(({ type }) => type === "user.message")?.["content"]).toEqual([
          { type: "text", text },
        ]);
      else expectError(sent, 400);
    });
  }

  const large = JSON.stringify({ ...AGENT, system: "x".repeat(33 * 1024 * 1024) });
  const post = (body: string | ReadableStream) =>
    raw("/v1/agents", { method: "POST", headers: keyed(JSON_TYPE), body, duplex: "half" } as RequestInit);
  verifies("transport:body:too-large", async () => {
    expectError(await post(large), 413, /32 MB/);
    await sleep(200);
    expectError(await post(new Blob([large]).stream()), 413, /32 MB/);
    await sleep(200);
  });
  verifies("transport:body:too-large", "the next request on the connection is not lost", async () => {
    for (let round = 0; round < 3; round += 1) {
      await post(large);
      expect((await post(JSON.stringify(AGENT))).status).toBe(200);
    }
  });
  verifies("transport:body:too-large", "30 MB are not", async () => {
    await sleep(200);
    const own = await newSession(api, server.environmentId);
    const events = Array.from({ length: 30 }, () => message("x".repeat(1024 * 1024)));
    expect((await api.post(`/v1/sessions/${own.id}/events`, { events })).status).toBe(200);
  });
});
