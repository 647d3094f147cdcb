/** The operator's command as a process: on a running server's database, on a data folder, and through a function. */
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { operate } from "../../shared/operator/operate.ts";
import { makeDataDir } from "../e2e/real-server.ts";
import { removeFolder } from "../remove-folder.ts";
import { startTestServer, type TestServer } from "../server.ts";

const MANGO = path.resolve(import.meta.dirname, "../../local/mango.ts");

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}
/** Runs the command with these settings and nothing else of ours. */
async function mango(settings: Record<string, string>, ...args: string[]): Promise<Ran> {
  const env = { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", ...settings };
  const run = promisify(execFile);
  try {
    const { stdout, stderr } = await run(process.execPath, [MANGO, ...args], { env });
    return { code: 0, stdout, stderr };
  } catch (error) {
    return error as unknown as Ran;
  }
}

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());
const here = () => ({ MANGO_DATABASE_URL: server.database.connectionString });
const json = async (...args: string[]) => {
  const ran = await mango(here(), "--json", ...args);
  if (ran.code !== 0) throw new Error(ran.stderr);
  return JSON.parse(ran.stdout);
};
const status = async (target: string, key: string) => (await server.request(target, { key })).status;

test("a new workspace, its key, and what the key may see: nothing of the other workspace's", async () => {
  const workspace = await json("workspace", "create", "Research");
  const key = await json("key", "create", "ci", "--workspace", workspace.id);
  expect(await status(`/v1/environments/${server.environmentId}`, key.secret)).toBe(404);
  expect(await status("/v1/environments", key.secret)).toBe(200);
  await json("key", "revoke", key.id);
  expect(await status("/v1/environments", key.secret)).toBe(401);
  expect((await json("workspace", "list")).map(({ id }: { id: string }) => id)).toContain(workspace.id);
});

test("a key for a worker: made, rotated with an overlap, revoked", async () => {
  const poll = `/v1/environments/${server.environmentId}/work/poll`;
  const key = await json("environment-key", "create", "build host");
  expect(key).toMatchObject({ environment_id: server.environmentId, name: "build host" });
  const rotated = await json("environment-key", "rotate", key.id, "--overlap", "600");
  expect([await status(poll, key.secret), await status(poll, rotated.secret)]).toEqual([200, 200]);
  const at_once = await json("environment-key", "rotate", key.id);
  expect([await status(poll, rotated.secret), await status(poll, at_once.secret)]).toEqual([401, 200]);
  await json("environment-key", "revoke", key.id);
  expect(await status(poll, at_once.secret)).toBe(401);
  const listed = await json("environment-key", "list", "--revoked");
  expect(listed.find(({ id }: { id: string }) => id === key.id)).toMatchObject({ revoked_at: expect.any(String) });
});

test("people get a table, and the secret once", async () => {
  const made = await mango(here(), "environment-key", "create", "laptop");
  const [secret] = /sk-mango-env-\S+/.exec(made.stdout) ?? [];
  expect(made.stdout).toMatch(/^id +name +environment id +created +rotated +revoked\n/);
  expect(made.stdout).toMatch(/\n\nKeep it now: it is not shown again\.\n$/);
  expect(await status(`/v1/environments/${server.environmentId}/work/poll`, secret ?? "")).toBe(200);
  const listed = await mango(here(), "environment-key", "list");
  expect(listed.stdout).toContain("laptop");
  expect(listed.stdout).not.toContain("sk-mango-env");
});

test("a wrong command says what is right, and a wrong id that there is none", async () => {
  const nothing = await mango(here());
  expect([nothing.code, nothing.stderr]).toEqual([2, expect.stringContaining("environment-key")]);
  const unknown = await mango(here(), "key", "destroy");
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("unknown command")]);
  const help = await mango(here(), "--help");
  expect([help.code, help.stdout]).toEqual([0, expect.stringContaining("MANGO_DATABASE_URL")]);
  const missing = await mango(here(), "key", "revoke", "apikey_nothing");
  expect(missing).toMatchObject({ code: 1, stdout: "", stderr: "There is no API key apikey_nothing.\n" });
  const machine = await mango(here(), "--json", "key", "revoke", "apikey_nothing");
  expect(JSON.parse(machine.stderr)).toEqual({
    error: { type: "not_found_error", message: "There is no API key apikey_nothing." },
  });
});

test("where no server runs, the data folder's own database is started for the command and ended after it", async () => {
  const dataDir = await makeDataDir();
  onTestFinished(() => removeFolder(dataDir));
  const settings = { MANGO_DATA_DIR: dataDir };
  const created = await mango(settings, "--json", "workspace", "create", "First");
  expect(created).toMatchObject({ code: 0 });
  const listed = await mango(settings, "--json", "workspace", "list");
  expect(JSON.parse(listed.stdout)).toEqual([JSON.parse(created.stdout)]);
});

test("a deployed edition is reached through its function, with the same answers", async () => {
  const seen: { path: string | undefined; payload: unknown }[] = [];
  const lambda = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    seen.push({ path: request.url, payload: JSON.parse(body) });
    if (request.url?.includes("broken")) response.setHeader("x-amz-function-error", "Unhandled");
    response.end(JSON.stringify(await operate(server.database.pool, JSON.parse(body))));
  });
  await new Promise<void>((listening) => lambda.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void lambda.close());
  const settings = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${(lambda.address() as AddressInfo).port}`,
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
  };
  const ran = await mango(
    settings,
    "--json",
    "--function",
    "mango-operate",
    "key",
    "create",
    "deployed",
    "--workspace",
    "wrkspc_local",
  );
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expect(await status("/v1/environments", JSON.parse(ran.stdout).secret)).toBe(200);
  expect(seen).toEqual([
    {
      path: "/2015-03-31/functions/mango-operate/invocations",
      payload: {
        actor: expect.any(String),
        request: { command: "key.create", workspace_id: "wrkspc_local", name: "deployed" },
      },
    },
  ]);
  const broken = await mango({ ...settings, MANGO_OPERATOR_FUNCTION: "broken" }, "workspace", "list");
  expect([broken.code, broken.stderr]).toEqual([1, expect.stringMatching(/function broken failed/)]);
});
