import { afterAll, beforeAll, expect } from "vitest";
import { startTestServer, type TestServer } from "../server.ts";
import { type Api, allPages, apiOf, type Body, expectError, expectRefused, ids, TIME } from "./api.ts";
import { verifies } from "./verifies.ts";

let server: TestServer;
let api: Api;
let environment: Body;
beforeAll(async () => {
  server = await startTestServer();
  api = apiOf(server);
  environment = await api.write("/v1/environments", { name: "E" });
});
afterAll(() => server.close());

const path = (rest = "") => `/v1/environments/${environment.id}/keys${rest}`;
const create = (name = "K") => api.write(path(), { name });
const secretOf = (key: Body) => String(key["secret"]);
/** What a poll with this secret is answered. */
const polls = async (secret: string) =>
  (await apiOf(server, secret).get(`/v1/environments/${environment.id}/work/poll`)).status;

verifies("environment-keys:create", async () => {
  const key = await create("Worker on the build host");
  expect(key).toEqual({
    id: expect.stringMatching(/^ekey_/),
    type: "environment_key",
    environment_id: environment.id,
    name: "Worker on the build host",
    created_at: expect.stringMatching(TIME),
    rotated_at: null,
    revoked_at: null,
    secret: expect.stringMatching(/^sk-mango-env-[A-Za-z0-9_-]{43}$/),
  });
  expect(await polls(secretOf(key))).toBe(200);
  const { secret: _, ...shown } = key;
  expect((await api.read(path())).data[0]).toEqual(shown);
});

for (const body of [{}, { name: "" }, { name: "n".repeat(256) }, { name: 1 }, { name: "K", secret: "mine" }]) {
  verifies("environment-keys:create:invalid", JSON.stringify(body).slice(0, 40), async () => {
    await expectRefused(server, () => api.post(path(), body), 400, Object.keys(body).at(-1) ?? "name");
  });
}

verifies("environment-keys:secrets", async () => {
  const key = await create();
  const rotated = await api.write(path(`/${key.id}/rotate`), { overlap_seconds: 60 });
  // With an Idempotency-Key the first answer would have to be kept.
  const repeated = await api.write(path(), { name: "once" }, { "idempotency-key": "the-same" });
  const { rows } = await server.database.pool.query(
    "select k::text as row from environment_keys k union all select i::text from idempotency_keys i",
  );
  expect(rows.length).toBeGreaterThan(1);
  for (const secret of [key, rotated, repeated].map(secretOf)) {
    expect(JSON.stringify([rows, server.logs])).not.toContain(secret);
  }
});

verifies("environment-keys:list", async () => {
  environment = await api.write("/v1/environments", { name: "Listed" });
  const made = [await create("a"), await create("b"), await create("c")];
  await api.write(path(`/${made[1]?.id}/revoke`));
  expect(ids((await api.read(path())).data)).toEqual([made[2]?.id, made[0]?.id]);
  const { items, sizes } = await allPages(api, path("?include_revoked=true&limit=2"));
  expect([ids(items), sizes]).toEqual([
    [made[2]?.id, made[1]?.id, made[0]?.id],
    [2, 1],
  ]);
  expect(JSON.stringify(items)).not.toContain("secret");
});

verifies("environment-keys:revoke", async () => {
  const key = await create();
  const revoked = await api.write(path(`/${key.id}/revoke`));
  expect(revoked).toMatchObject({ id: key.id, revoked_at: expect.stringMatching(TIME) });
  expect(await polls(secretOf(key))).toBe(401);
  expect(await api.write(path(`/${key.id}/revoke`))).toEqual(revoked);
});
verifies("environment-keys:revoke", "an overlapping secret ends with it", async () => {
  const key = await create();
  const rotated = await api.write(path(`/${key.id}/rotate`), { overlap_seconds: 3600 });
  await api.write(path(`/${key.id}/revoke`));
  expect([await polls(secretOf(key)), await polls(secretOf(rotated))]).toEqual([401, 401]);
});

verifies("environment-keys:rotate", async () => {
  const key = await create();
  const rotated = await api.write(path(`/${key.id}/rotate`));
  expect(rotated).toMatchObject({ id: key.id, name: "K", rotated_at: expect.stringMatching(TIME), revoked_at: null });
  expect(secretOf(rotated)).not.toBe(secretOf(key));
  expect([await polls(secretOf(key)), await polls(secretOf(rotated))]).toEqual([401, 200]);
});
verifies("environment-keys:rotate", "with an overlap both work, until it is over", async () => {
  const key = await create();
  const rotated = await api.write(path(`/${key.id}/rotate`), { overlap_seconds: 3600 });
  expect([await polls(secretOf(key)), await polls(secretOf(rotated))]).toEqual([200, 200]);
  await server.database.pool.query("update environment_keys set previous_until = now() where id = $1", [key.id]);
  expect([await polls(secretOf(key)), await polls(secretOf(rotated))]).toEqual([401, 200]);
});
for (const overlap of [-1, 86_401, 1.5, "soon"]) {
  verifies("environment-keys:rotate", `an overlap of ${overlap} is refused`, async () => {
    const key = await create();
    expectError(await api.post(path(`/${key.id}/rotate`), { overlap_seconds: overlap }), 400, "overlap_seconds");
    expect(await polls(secretOf(key))).toBe(200);
  });
}

verifies("environment-keys:rotate:revoked", async () => {
  const key = await create();
  await api.write(path(`/${key.id}/revoke`));
  expectError(await api.post(path(`/${key.id}/rotate`)), 409, "revoked");
});

verifies("environment-keys:not-found", async () => {
  const key = await create();
  const other = await api.write("/v1/environments", { name: "Other" });
  for (const target of [
    "/v1/environments/env_nothing/keys",
    `${path("/ekey_nothing")}/revoke`,
    `${path("/ekey_nothing")}/rotate`,
    `/v1/environments/${other.id}/keys/${key.id}/revoke`,
    `/v1/environments/${other.id}/keys/${key.id}/rotate`,
  ]) {
    expectError(await api.post(target, target.endsWith("keys") ? { name: "K" } : undefined), 404);
  }
  expectError(await api.get("/v1/environments/env_nothing/keys"), 404);
  expect(await polls(secretOf(key))).toBe(200);
});
