import { afterAll, expect, test } from "vitest";
import { setApiKey } from "../../shared/workspaces/keys.ts";
import { startTestServer } from "../server.ts";

const server = await startTestServer();
afterAll(() => server.close());

const status = async (key: string) => (await server.request("/v1/agents", { key })).status;

test("a server that starts with another key no longer opens to the one before, and the key may be set back", async () => {
  const { pool } = server.database;
  const setting = { workspaceId: "wrkspc_local", name: "MANGO_API_KEY" };
  const [old, changed] = ["sk-mango-test-old-key-000", "sk-mango-test-new-key-000"];
  await setApiKey(pool, { ...setting, secret: old });
  expect(await status(old)).toBe(200);

  await setApiKey(pool, { ...setting, secret: changed });
  expect([await status(old), await status(changed)]).toEqual([401, 200]);

  await setApiKey(pool, { ...setting, secret: old });
  expect([await status(old), await status(changed)]).toEqual([200, 401]);
});
