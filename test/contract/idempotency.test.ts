import { afterAll, beforeAll, expect } from "vitest";
import { API_KEY, startTestServer, type TestServer } from "../server.ts";
import {
  type Answer,
  type Api,
  apiOf,
  type Body,
  expectError,
  expectRefused,
  otherWorkspace,
  rowCounts,
} from "./api.ts";
import { isIdle, list, message, newSession, ofType, until } from "./driver.ts";
import { VERSIONS } from "./sdk-clients.ts";
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

let keys = 0;
const newKey = () => ({ "idempotency-key": `key-${++keys}` });

/** Every POST that creates: its path, a body, and another body. */
const creates = [
  ["agents", () => ["/v1/agents", { name: "A", model: "m" }, { name: "B", model: "m" }]],
  ["environments", () => ["/v1/environments", { name: "A" }, { name: "B" }]],
  [
    "sessions",
    () => {
      const body = { agent: session.agent.id, environment_id: server.environmentId };
      return ["/v1/sessions", body, { ...body, title: "Another" }];
    },
  ],
  [
    "events",
    () => [`/v1/sessions/${session.id}/events`, { events: [message("once")] }, { events: [message("other")] }],
  ],
] as const satisfies readonly (readonly [string, () => readonly [string, object, object]])[];

/** Lets the turns of the session end, so that the rows stand still. */
const quiet = async () => {
  if ((await list(api, session)).length > 0) {
    await until(api, session, isIdle(), 1);
    await expect.poll(async () => (await api.read(`/v1/sessions/${session.id}`)).status).toBe("idle");
  }
};

for (const [what, request] of creates) {
  verifies("idempotency:same-answer", what, async () => {
    const [path, body] = request();
    const headers = newKey();
    const first = await api.post(path, body, headers);
    await quiet();
    const before = await rowCounts(server);
    const again = await api.post(path, body, headers);
    expect([again.status, again.text]).toEqual([200, first.text]);
    expect(again.headers.get("request-id")).not.toBe(first.headers.get("request-id"));
    await quiet();
    expect(await rowCounts(server)).toEqual(before);
    expect((await api.post(path, body)).text).not.toBe(first.text);
    await quiet();
  });

  verifies("idempotency:other-body", what, async () => {
    const [path, body, other] = request();
    const headers = newKey();
    await api.write(path, body, headers);
    await quiet();
    await expectRefused(server, () => api.post(path, other, headers), 409, /idempotency-key/i);
    expect((await api.post(path, body, headers)).status).toBe(200);
  });

  verifies("idempotency:concurrent", what, async () => {
    const [path, body] = request();
    await quiet();
    const before = await rowCounts(server);
    const headers = newKey();
    const answers = await Promise.all(Array.from({ length: 8 }, () => api.post(path, body, headers)));
    const good = answers.filter(({ status }) => status === 200);
    expect(good.length).toBeGreaterThan(0);
    expect(new Set(good.map(({ text }) => text)).size).toBe(1);
    // One that met the first in progress may be told so, and to come again.
    for (const answer of answers) expect([200, 409]).toContain(answer.status);
    await quiet();
    const after = await rowCounts(server);
    const table = what === "events" ? "turns" : what;
    expect((after[table] ?? 0) - (before[table] ?? 0)).toBe(1);
  });

  verifies("idempotency:failure-forgotten", what, async () => {
    const [path, body] = request();
    const headers = newKey();
    await expectRefused(server, () => api.post(path, { ...body, unknown: 1 }, headers), 400);
    const first = await api.post(path, body, headers);
    expect(first.status).toBe(200);
    expect((await api.post(path, body, headers)).text).toBe(first.text);
    await quiet();
  });
}

verifies("idempotency:failure-forgotten", "after a 404", async () => {
  const headers = newKey();
  const body = { agent: "agent_nothing", environment_id: server.environmentId };
  await expectRefused(server, () => api.post("/v1/sessions", body, headers), 404);
  expect((await api.post("/v1/sessions", { ...body, agent: session.agent.id }, headers)).status).toBe(200);
});

verifies("idempotency:frozen", async () => {
  const headers = newKey();
  const body = { name: "Before", model: "m" };
  const first = await api.post("/v1/agents", body, headers);
  await api.write(`/v1/agents/${first.body.id}`, { name: "After" });
  expect((await api.post("/v1/agents", body, headers)).text).toBe(first.text);
  await api.write(`/v1/agents/${first.body.id}/archive`);
  expect((await api.post("/v1/agents", body, headers)).text).toBe(first.text);
});

verifies("idempotency:workspaces", async () => {
  const other = await otherWorkspace(server);
  const headers = newKey();
  const body = { name: "Shared key", model: "m" };
  const [mine, theirs] = [await api.write("/v1/agents", body, headers), await other.write("/v1/agents", body, headers)];
  expect(theirs.id).not.toBe(mine.id);
  expectError(await other.get(`/v1/agents/${mine.id}`), 404);
});

verifies("idempotency:restart", async () => {
  const first = await startTestServer();
  const body = { name: "A", model: "m" };
  const headers = newKey();
  const answer = await apiOf(first).post("/v1/agents", body, headers);
  await first.stopServer();
  const second = await startTestServer({ database: first.database });
  expect((await apiOf(second).post("/v1/agents", body, headers)).text).toBe(answer.text);
  await second.close();
});

for (const key of ["", "k".repeat(256)]) {
  verifies("idempotency:length", `${key.length} characters`, async () => {
    const headers = { "idempotency-key": key };
    await expectRefused(
      server,
      () => api.post("/v1/agents", { name: "A", model: "m" }, headers),
      400,
      /idempotency-key/i,
    );
  });
}
verifies("idempotency:length", "255 characters", async () => {
  const answer: Answer = await api.post(
    "/v1/agents",
    { name: "A", model: "m" },
    { "idempotency-key": "k".repeat(255) },
  );
  expect(answer.status).toBe(200);
});

for (const [version, Client] of VERSIONS) {
  verifies("idempotency:sdk", version, async () => {
    const client = new Client({ baseURL: server.url, apiKey: API_KEY, maxRetries: 0 });
    const options = { headers: { "Idempotency-Key": `sdk-${version}` } };
    const body = { name: "Through the SDK", model: "m" };
    const first = await client.beta.agents.create(body, options);
    expect(await client.beta.agents.create(body, options)).toEqual(first);
    await expect(client.beta.agents.create({ ...body, name: "Other" }, options)).rejects.toMatchObject({ status: 409 });
    const events = { events: [{ type: "user.message" as const, content: [{ type: "text" as const, text: version }] }] };
    const sent = await client.beta.sessions.events.send(session.id, events, {
      headers: { "Idempotency-Key": `sdk-e-${version}` },
    });
    expect(
      await client.beta.sessions.events.send(session.id, events, {
        headers: { "Idempotency-Key": `sdk-e-${version}` },
      }),
    ).toEqual(sent);
    const stored = ofType(await list(api, session), "user.message").filter((event) =>
      JSON.stringify(event).includes(version),
    );
    expect(stored).toHaveLength(1);
  });
}
