import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestServer, type TestServer } from "../../test/server.ts";
import { dropOldAnswers } from "./idempotency.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const create = (key: string, name: string) =>
  server.request("/v1/agents", { json: { name, model: "test-1" }, headers: { "idempotency-key": key } });
const age = (key: string, interval: string) =>
  server.database.pool.query("update idempotency_keys set created_at = now() - $2::interval where key = $1", [
    key,
    interval,
  ]);
const kept = async () =>
  (await server.database.pool.query("select key from idempotency_keys order by key")).rows.map(({ key }) => key);

test("an answer is kept for a day and then dropped; the key is free for another request", async () => {
  const first = (await (await create("old", "A")).json()) as { id: string };
  await create("young", "A");
  await age("old", "24 hours 1 second");
  await age("young", "23 hours 59 minutes");
  expect((await create("old", "another")).status).toBe(409);

  expect(await dropOldAnswers(server.database.pool)).toBe(1);

  expect(await kept()).toEqual(["young"]);
  expect(await dropOldAnswers(server.database.pool)).toBe(0);
  const again = (await (await create("old", "another")).json()) as { id: string; name: string };
  expect(again.name).toBe("another");
  expect(again.id).not.toBe(first.id);
  expect((await create("young", "another")).status).toBe(409);
});
