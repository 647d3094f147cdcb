import { afterEach, beforeEach, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "../../test/database.ts";
import { createEnvironment } from "../environments/environments.ts";
import { findPrincipal } from "../workspaces/keys.ts";
import { operate } from "./operate.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await testDatabase();
});
afterEach(() => database.close());

interface Thing {
  readonly id: string;
  readonly secret: string;
  readonly [field: string]: unknown;
}
const run = (request: object) => operate(database.pool, { actor: "ada", request });
async function done<Result = Thing>(request: object): Promise<Result> {
  const answer = await run(request);
  if ("error" in answer) throw new Error(answer.error.message);
  return answer.result as Result;
}
const opens = async (secret: string) => (await findPrincipal(database.pool, secret))?.kind ?? null;
const records = async () =>
  (await database.pool.query("select actor, action, subject, session_id from audit_records order by created_at")).rows;

test("a workspace and a key of it: the key opens that workspace, and is revoked for good", async () => {
  const workspace = await done({ command: "workspace.create", name: "Research" });
  expect(workspace).toMatchObject({ id: expect.stringMatching(/^wrkspc_/), type: "workspace", name: "Research" });
  const key = await done({ command: "key.create", workspace_id: workspace.id, name: "ci" });
  expect(await findPrincipal(database.pool, key.secret)).toMatchObject({ kind: "api_key", workspaceId: workspace.id });
  const revoked = await done({ command: "key.revoke", key_id: key.id });
  expect(revoked).toMatchObject({ id: key.id, revoked_at: expect.any(String) });
  expect(await opens(key.secret)).toBeNull();
  expect(await done({ command: "key.list", include_revoked: false })).toEqual([]);
  expect(await done({ command: "key.list", include_revoked: true })).toEqual([revoked]);
  expect(await done<Thing[]>({ command: "workspace.list" })).toEqual([workspace]);
});

test("an environment's keys: create, list, rotate with an overlap, revoke", async () => {
  const workspace = await done({ command: "workspace.create", name: "W" });
  const environment = await createEnvironment(database.pool, workspace.id, { name: "E" });
  const key = await done({ command: "environment_key.create", name: "host" });
  expect(key).toMatchObject({ environment_id: environment.id, name: "host" });
  const rotated = await done({ command: "environment_key.rotate", key_id: key.id, overlap_seconds: 60 });
  expect(await Promise.all([key, rotated].map(({ secret }) => opens(secret)))).toEqual([
    "environment_key",
    "environment_key",
  ]);
  await done({ command: "environment_key.revoke", key_id: key.id });
  expect(await Promise.all([key, rotated].map(({ secret }) => opens(secret)))).toEqual([null, null]);
  expect(await done({ command: "environment_key.list", include_revoked: false })).toEqual([]);
  const listed = await done<Thing[]>({
    command: "environment_key.list",
    environment_id: environment.id,
    include_revoked: true,
  });
  expect(listed.map(({ id }) => id)).toEqual([key.id]);
});

test("what changes something leaves a record with its author; what fails leaves none", async () => {
  const workspace = await done({ command: "workspace.create", name: "W" });
  const key = await done({ command: "key.create", name: "k" });
  await done({ command: "key.list", include_revoked: true });
  await run({ command: "key.revoke", key_id: "apikey_nothing" });
  expect(await records()).toEqual([
    { actor: "ada", action: "workspace.create", subject: workspace.id, session_id: null },
    { actor: "ada", action: "key.create", subject: key.id, session_id: null },
  ]);
  const { rows } = await database.pool.query(
    "select a::text as row from audit_records a union all select k::text from api_keys k",
  );
  expect(JSON.stringify(rows)).not.toContain(key.secret);
});

test("of several the operator must choose, and of none there is nothing to choose", async () => {
  expect(await run({ command: "key.list", include_revoked: false })).toEqual({
    error: { type: "not_found_error", message: "There is no workspace yet." },
  });
  const one = await done({ command: "workspace.create", name: "One" });
  const two = await done({ command: "workspace.create", name: "Two" });
  expect(await run({ command: "key.create", name: "k" })).toEqual({
    error: {
      type: "invalid_request_error",
      message: `Which workspace? There are several: ${one.id} (One), ${two.id} (Two).`,
    },
  });
});

test.each([
  [{ command: "key.revoke", key_id: "apikey_x" }, "There is no API key apikey_x."],
  [{ command: "key.create", workspace_id: "wrkspc_x", name: "k" }, "There is no workspace wrkspc_x."],
  [{ command: "environment_key.create", environment_id: "env_x", name: "k" }, "There is no environment env_x."],
  [{ command: "environment_key.rotate", key_id: "ekey_x", overlap_seconds: 0 }, "There is no environment key ekey_x."],
])("unknown ids are told: %j", async (request, message) => {
  expect(await run(request)).toEqual({ error: { type: "not_found_error", message } });
});

test.each([
  [null, /expected object/],
  [{ actor: "ada" }, /request|expected/],
  [{ actor: "", request: { command: "workspace.list" } }, /^actor: /],
  [{ actor: "ada", request: { command: "workspace.drop" } }, /^command: /],
  [{ actor: "ada", request: { command: "workspace.create", name: "" } }, /^name: /],
  [{ actor: "ada", request: { command: "workspace.create", name: "W", extra: 1 } }, /extra/],
])("a payload that is no request changes nothing: %j", async (payload, message) => {
  const answer = await operate(database.pool, payload);
  expect(answer).toMatchObject({ error: { type: "invalid_request_error", message: expect.stringMatching(message) } });
  expect(await records()).toEqual([]);
});
