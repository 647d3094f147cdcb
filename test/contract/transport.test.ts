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
import { message, newSession } from "./driver.ts";
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
      const cursors = ["nonsense", "", "AAAA", Buffer.from('{"id":1}').toString("base64url")];
      if (path !== "/v1/agents" && foreign !== null) cursors.push(encodeURIComponent(foreign));
      for (const cursor of cursors) expectError(await api.get(`${path}?page=${cursor}`), 400, "page");
    });
  }
});

verifies("transport:page:bad-cursor", "a NUL", async () => {
  expectError(await api.get("/v1/agents?page=%00"), 400, "page");
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
