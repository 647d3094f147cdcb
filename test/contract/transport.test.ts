import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import {
  type Answer,
  type Api,
  apiOf,
  type Body,
  expectEnvelope,
  expectError,
  expectRefused,
  otherWorkspace,
} from "./api.ts";
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

describe("keys", () => {
  verifies("transport:key:x-api-key", async () => {
    expect((await raw("/v1/agents", { headers: { "X-Api-Key": API_KEY } })).status).toBe(200);
  });
  for (const scheme of ["Bearer", "bearer"]) {
    verifies("transport:key:bearer", scheme, async () => {
      expect((await raw("/v1/agents", { headers: { authorization: `${scheme} ${API_KEY}` } })).status).toBe(200);
    });
  }
  verifies("transport:key:both", async () => {
    expectError(await raw("/v1/agents", { headers: keyed({ authorization: `Bearer ${API_KEY}` }) }), 401);
  });
  for (const headers of [
    {},
    { "x-api-key": "" },
    { "x-api-key": "sk-mango-nobody" },
    { authorization: API_KEY },
    { authorization: `Basic ${API_KEY}` },
    { authorization: "Bearer" },
    { authorization: "Bearer sk-mango-nobody" },
  ]) {
    verifies("transport:key:none", JSON.stringify(headers), async () => {
      expectError(await raw("/v1/agents", { headers: headers as Record<string, string> }), 401);
      const post = { method: "POST", headers: { ...JSON_TYPE, ...(headers as Record<string, string>) } };
      await expectRefused(server, () => raw("/v1/agents", { ...post, body: JSON.stringify(AGENT) }), 401);
      await expectRefused(server, () => raw("/v1/agents", { ...post, body: "not json" }), 401);
    });
  }

  for (const headers of [
    {},
    { "anthropic-version": "2023-06-01" },
    { "anthropic-version": "2026-10-21" },
    { "anthropic-version": "2030-01-01", "anthropic-beta": "managed-agents-2026-04-01,other-2020-01-01" },
  ]) {
    verifies("transport:version:any", JSON.stringify(headers), async () => {
      for (const path of ["/v1/agents", `/v1/sessions/${session.id}/threads`]) {
        expect((await api.get(path, headers as Record<string, string>)).status).toBe(200);
      }
    });
  }

  verifies("transport:workspace:match", async () => {
    expect((await api.get("/v1/agents", { "anthropic-workspace-id": "wrkspc_local" })).status).toBe(200);
  });
  verifies("transport:workspace:mismatch", async () => {
    await otherWorkspace(server);
    for (const id of ["wrkspc_other", "wrkspc_nothing"]) {
      const answer = await api.get("/v1/agents", { "anthropic-workspace-id": id });
      expect([400, 401, 403, 404]).toContain(answer.status);
      expectEnvelope(answer);
    }
  });
});

describe("queries", () => {
  verifies("transport:query:beta", async () => {
    const paths = [
      "/v1/agents",
      `/v1/agents/${session.agent.id}`,
      `/v1/agents/${session.agent.id}/versions`,
      "/v1/environments",
      `/v1/environments/${server.environmentId}`,
      "/v1/sessions",
      `/v1/sessions/${session.id}`,
      `/v1/sessions/${session.id}/events`,
      `/v1/sessions/${session.id}/threads`,
    ];
    for (const path of paths) expect([path, (await api.get(`${path}?beta=true`)).status]).toEqual([path, 200]);
    for (const path of ["/v1/agents", "/v1/environments"])
      expect((await api.post(`${path}?beta=true`, path === "/v1/agents" ? AGENT : { name: "E" })).status).toBe(200);
  });
  verifies("transport:query:unknown", async () => {
    const plain = await api.read("/v1/agents?limit=2");
    expect(await api.read("/v1/agents?limit=2&nonsense=1&x[]=2&y[gte]=3&=4")).toEqual(plain);
    const event = { events: [message("x")] };
    expect(
      (await api.post(`/v1/sessions/${(await newSession(api, server.environmentId)).id}/events?nonsense=1`, event))
        .status,
    ).toBe(200);
  });
  verifies("transport:query:arrays", async () => {
    for (const query of ["statuses[]=idle", "statuses%5B%5D=idle", "statuses[]=idle&statuses[]=running"]) {
      expect((await api.read(`/v1/sessions?${query}`)).data.length).toBeGreaterThan(0);
    }
  });
  for (const [path, names] of [
    ["/v1/agents?limit=ten", "limit"],
    ["/v1/agents?created_at[gte]=yesterday", "created_at[gte]"],
    ["/v1/environments?include_archived=perhaps", "include_archived"],
    ["/v1/sessions?order=up", "order"],
    ["/v1/sessions?statuses[]=idle&statuses[]=awake", "statuses"],
  ] as const) {
    verifies("transport:query:bad-value", path, async () => {
      const answer = await api.get(path);
      expectError(answer, 400);
      expect(answer.body.error.message).toContain(names);
    });
  }
  for (const path of ["/v1/agents", "/v1/environments", "/v1/sessions"]) {
    verifies("transport:page:bad-cursor", path, async () => {
      const foreign = (await api.read("/v1/agents?limit=1")).next_page;
      await api.write("/v1/agents", AGENT);
      const cursors = ["nonsense", "", "AAAA", "%00", Buffer.from('{"id":1}').toString("base64url")];
      if (path !== "/v1/agents" && foreign !== null) cursors.push(encodeURIComponent(foreign));
      for (const cursor of cursors) expectError(await api.get(`${path}?page=${cursor}`), 400, "page");
    });
  }
});

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
  const post = (body: BodyInit) =>
    raw("/v1/agents", { method: "POST", headers: keyed(JSON_TYPE), body, duplex: "half" } as RequestInit);
  verifies("transport:body:too-large", async () => {
    expectError(await post(large), 413, /32 MB/);
    await sleep(200);
    expectError(await post(new Blob([large]).stream() as BodyInit), 413, /32 MB/);
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

describe("paths and answers", () => {
  verifies("transport:path:encoding", async () => {
    const [head, tail] = [session.agent.id.slice(0, -1), session.agent.id.slice(-1)];
    const encoded = `${head}%${tail.charCodeAt(0).toString(16)}`;
    expect((await api.read(`/v1/agents/${encoded}`)).id).toBe(session.agent.id);
    for (const id of ["%", "%zz", "%00", "%ff", "a%2Fb", "%E0%A4%A", "x".repeat(5000), "'%20or%201=1"]) {
      const answer = await api.get(`/v1/agents/${id}`);
      expect({ id, status: answer.status }).toMatchObject({ status: expect.toBeOneOf([400, 404, 414]) });
      expectEnvelope(answer);
    }
  });
  verifies("transport:path:foreign-id", async () => {
    for (const path of [
      `/v1/agents/${session.id}`,
      `/v1/sessions/${session.agent.id}`,
      `/v1/environments/${session.id}`,
      `/v1/sessions/${session.agent.id}/events`,
      "/v1/agents/agent_nothing",
    ]) {
      expectError(await api.get(path), 404);
    }
  });
  verifies("transport:answer:json", async () => {
    for (const accept of ["application/json", "*/*", "text/html"]) {
      expect((await api.get("/v1/agents", { accept })).headers.get("content-type")).toMatch(/^application\/json/);
    }
  });
  verifies("transport:answer:request-id", async () => {
    const answers = [
      await api.get("/v1/agents"),
      await api.get("/v1/agents"),
      await api.get("/v1/nothing"),
      await api.post("/v1/agents", {}),
      await raw("/v1/agents"),
      await raw("/healthz"),
      await raw("/openapi.json"),
    ];
    const seen = answers.map(({ headers }) => headers.get("request-id"));
    for (const id of seen) expect(id).toMatch(/^req_/);
    expect(new Set(seen).size).toBe(seen.length);
  });
  verifies("transport:answer:id-prefixes", async () => {
    const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
    const [event] = (await api.write(`/v1/sessions/${session.id}/events`, { events: [message("x")] })).data;
    const made = [session.agent.id, server.environmentId, session.id, thread?.id, event?.id];
    expect(made.map((id) => id?.split("_")[0])).toEqual(["agent", "env", "sesn", "sthr", "sevt"]);
    for (const id of made) expect(id).toMatch(/^[a-z]+_[A-Za-z0-9]+$/);
  });

  verifies("transport:error:envelope", async () => {
    const errors = [
      await api.get("/v1/agents/agent_nothing"),
      await api.post("/v1/agents", {}),
      await raw("/v1/agents"),
      await api.post("/v1/environments", { name: "E", config: { type: "cloud" } }),
    ];
    expect(errors.map(({ status }) => status)).toEqual([404, 400, 401, 422]);
    for (const answer of errors) expectEnvelope(answer);
  });
  verifies("transport:error:unknown-route", async () => {
    for (const path of ["/v1/nothing", "/v1", "/", "/v1/agents/x/y/z", "/v2/agents", "/v1//agents"])
      expectError(await api.get(path), 404);
    for (const [method, path] of [
      ["PUT", "/v1/agents"],
      ["PATCH", `/v1/agents/${session.agent.id}`],
      ["DELETE", `/v1/agents/${session.agent.id}`],
      ["OPTIONS", "/v1/agents"],
    ] as const) {
      const answer = await raw(path, { method, headers: keyed({}) });
      expect([404, 405]).toContain(answer.status);
      expect(answer.body.type).toBe("error");
    }
  });
  verifies("transport:error:names-field", async () => {
    const tools = [
      { type: "custom", name: "t", description: "d", input_schema: { type: "object" } },
      { type: "custom", name: "u", description: 7, input_schema: { type: "object" } },
    ];
    await expectRefused(server, () => api.post("/v1/agents", { ...AGENT, tools }), 400, /tools.*1.*description/);
    await expectRefused(
      server,
      () =>
        api.post(`/v1/sessions/${session.id}/events`, {
          events: [message("x"), { type: "user.message", content: [{ type: "text", text: "" }] }],
        }),
      400,
      /events.*1.*content.*0.*text/,
    );
  });
  verifies("transport:error:no-retry-on-409", async () => {
    const agent = await api.write("/v1/agents", AGENT);
    await api.write(`/v1/agents/${agent.id}`, { name: "B" });
    expectError(await api.post(`/v1/agents/${agent.id}`, { version: 1 }), 409);
    expectError(await api.delete(`/v1/environments/${server.environmentId}`), 409);
  });

  verifies("transport:operations", async () => {
    for (const path of ["/healthz", "/readyz"]) expect((await raw(path)).status).toBe(200);
    const { body } = await raw("/openapi.json");
    expect(body["openapi"]).toMatch(/^3\.1/);
    expect(Object.keys(body["paths"] as object).length).toBeGreaterThan(15);
  });
});
