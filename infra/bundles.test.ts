import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { glob, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { type Bundle, buildBundles, FUNCTIONS } from "./bundles.ts";

const run = promisify(execFile);
const PROJECT = path.resolve(import.meta.dirname, "..");
/** Lambda has no more of this project than the bundle. */
const AWAY_FROM_HOME = { env: {}, cwd: tmpdir() };
/** What Lambda's runtime puts there before it loads a function. */
const RUNTIME = "globalThis.awslambda = { streamifyResponse: (handler) => handler };";

let directory: string;
let bundles: Bundle[];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "mango-bundles-"));
  bundles = await buildBundles(directory);
}, 120_000);

afterAll(() => rm(directory, { recursive: true, force: true }));

const program = (name: string) => path.join(directory, name, "index.js");

test("every function in functions/ is built", async () => {
  const files = await readdir(new URL("../functions", import.meta.url));

  expect(files.filter((file) => file.endsWith(".lambda.ts")).map((file) => file.replace(".lambda.ts", ""))).toEqual(
    FUNCTIONS,
  );
});

test.each(FUNCTIONS)("%s loads in a process of its own, without any variable", async (name) => {
  const script = `${RUNTIME} console.log(typeof require(${JSON.stringify(program(name))}).handler)`;

  const { stdout, stderr } = await run(process.execPath, ["-e", script], AWAY_FROM_HOME);

  expect([stdout, stderr]).toEqual(["function\n", ""]);
});

test("no program is larger than 1 MB", () => {
  expect(bundles.filter(({ bytes }) => bytes > 1024 * 1024)).toEqual([]);
  // Something was built at all.
  expect(bundles.filter(({ bytes }) => bytes < 100 * 1024)).toEqual([]);
});

test("every error says its name itself: minified classes have none, and the states' Retry looks for it", async () => {
  const sources: string[] = [];
  for await (const file of glob("{functions,shared}/**/*.ts", { cwd: PROJECT })) {
    sources.push(await readFile(path.join(PROJECT, file), "utf8"));
  }
  const classes = sources.flatMap((source) => [
    ...source.matchAll(/^(?:export )?class (\w+) extends (?:\w*Error|InvalidRequest)\b[^{]*\{\n(.*)/gm),
  ]);

  expect(classes.length).toBeGreaterThan(20);
  expect(
    classes.filter(([, name, first]) => !first?.includes(`readonly name = "${name}"`)).map(([, name]) => name),
  ).toEqual([]);
});

test("only what asks the model holds the provider's SDK", async () => {
  const texts = await Promise.all(
    FUNCTIONS.map(async (name) => [name, await readFile(program(name), "utf8")] as const),
  );

  expect(
    texts
      .filter(([, text]) => text.includes("anthropic-version"))
      .map(([name]) => name)
      .sort(),
  ).toEqual(["call-model", "gate-tools"]);
});

test("what fetches pages holds neither a database driver nor a client of AWS's", async () => {
  const fetchPage = await readFile(program("fetch-page"), "utf8");
  const runTool = await readFile(program("run-tool"), "utf8");

  // What the driver and the clients cannot do without; in the other program they are found.
  for (const trait of ["SCRAM-SHA-256", "AWS4-HMAC-SHA256"]) {
    expect(runTool).toContain(trait);
    expect(fetchPage).not.toContain(trait);
  }
});

test("the worker's command runs, and finds its thread", async () => {
  const { stdout } = await run(process.execPath, [program("worker"), "--help"], AWAY_FROM_HOME);
  const text = await readFile(program("worker"), "utf8");

  expect(stdout).toContain("Usage: mango-worker");
  const threads = [...text.matchAll(/new URL\("\.\/([\w-]+\.\w+)"/g)].map(([, file]) => file);
  expect(threads).toEqual(["grep-walk.js"]);
  expect(await readdir(path.join(directory, "worker"))).toContain("grep-walk.js");
});

test("the worker's file tools run as they would inside a sandbox: from the bundle's folder alone", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "mango-file-tools-"));
  await writeFile(path.join(folder, "poem.txt"), "roses\nviolets\n");
  const tools = spawn(process.execPath, [path.join(directory, "worker", "file-tools.js"), folder], {
    ...AWAY_FROM_HOME,
    stdio: ["pipe", "pipe", "inherit"],
  });
  tools.stdin.write(`${JSON.stringify({ id: 1, tool: "grep", input: { pattern: "viol" } })}\n`);
  const [answer] = await once(tools.stdout, "data");
  tools.stdin.end();

  expect(JSON.parse(String(answer))).toMatchObject({ id: 1, isError: false });
  expect(String(answer)).toContain("violets");
  expect((await readdir(path.join(directory, "worker", "etc"))).sort()).toEqual(["group", "hosts", "passwd"]);
  await rm(folder, { recursive: true });
});

describe("the migrator's bundle", () => {
  const name = `migrated_${process.pid}`;
  const administrate = async (statement: string, database?: string) => {
    const address = new URL(inject("testServer").connectionString);
    address.pathname = database ?? address.pathname;
    const client = new pg.Client({ connectionString: address.href });
    await client.connect();
    try {
      return (await client.query(statement)).rows as unknown[];
    } finally {
      await client.end();
    }
  };
  let secrets: ReturnType<typeof createServer>;

  beforeAll(async () => {
    await administrate(`create database ${name}`);
    const { username, password } = new URL(inject("testServer").connectionString);
    secrets = createServer((_, response) => {
      response.setHeader("content-type", "application/x-amz-json-1.1");
      response.end(JSON.stringify({ SecretString: JSON.stringify({ username, password }) }));
    });
    secrets.listen(0, "127.0.0.1");
    await once(secrets, "listening");
  });

  afterAll(async () => {
    await administrate(`drop database ${name} with (force)`);
    await administrate("drop role if exists migrated_app");
    secrets.close();
  });

  test("carries the migrations and runs them on an empty database", async () => {
    const { hostname, port } = new URL(inject("testServer").connectionString);
    const env = {
      AWS_REGION: "eu-central-1",
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      AWS_ENDPOINT_URL: `http://127.0.0.1:${(secrets.address() as AddressInfo).port}`,
      MANGO_DATABASE_HOST: hostname,
      MANGO_DATABASE_PORT: port,
      MANGO_DATABASE_NAME: name,
      MANGO_DATABASE_USER: "migrated_app",
      MANGO_DATABASE_TLS: "off",
      MANGO_DATABASE_SECRET_ARN: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:owner",
    };
    const script = `require(${JSON.stringify(program("migrate"))}).handler({ RequestType: process.argv[1] }, {})
      .then((answer) => console.log("ANSWER " + JSON.stringify(answer)))`;

    const { stdout } = await run(process.execPath, ["-e", script, "Create"], { env, cwd: tmpdir() });

    expect(stdout).toContain('ANSWER {"PhysicalResourceId":"schema"}');
    const sources = (await readdir(new URL("../shared/db/migrations", import.meta.url))).map((it) =>
      it.replace(".sql", ""),
    );
    expect(await administrate("select name from schema_migrations order by id", name)).toEqual(
      sources.sort().map((source) => ({ name: source })),
    );
    const granted = "select has_table_privilege('migrated_app', 'sessions', 'insert') as granted";
    expect(await administrate(granted, name)).toEqual([{ granted: true }]);
    await administrate("drop owned by migrated_app", name);
  });
});
