/**
 * `npm run test:localstack`: deploys the stacks to an AWS emulator in Docker and runs the black-box tests against it.
 *
 * A green run proves that the templates deploy and the parts fit; it does not prove AWS: emulators differ from it (see
 * docs/aws.md, "Emulators"). `--keep` leaves the emulator running.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { newSecret } from "../shared/contract/ids.ts";
import { seed } from "./seed.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));
const COMPOSE = fileURLToPath(new URL("./compose.yaml", import.meta.url));
const LAUNCH = path.join(PROJECT, "local/launch.mjs");
const MODEL_PORT = process.env["MANGO_TEST_MODEL_PORT"] ?? "9797";
const EMULATOR = process.env["AWS_ENDPOINT_URL"] ?? "http://localhost:4566";
const DATABASE = "postgresql://mango_owner@127.0.0.1:55432/mango";
const START_MS = 180_000;
const STACK = "mango-emulated";

/** The deployment's side: credentials that emulators take, and every client pointed at it. */
const AWS = {
  AWS_ACCESS_KEY_ID: "test",
  AWS_SECRET_ACCESS_KEY: "test",
  AWS_REGION: "us-east-1",
  AWS_DEFAULT_REGION: "us-east-1",
  AWS_ENDPOINT_URL: EMULATOR,
  // Buckets are host names; this one leads back to this machine.
  AWS_ENDPOINT_URL_S3: process.env["AWS_ENDPOINT_URL_S3"] ?? "http://s3.localhost.localstack.cloud:4566",
};

function refuse(message: string): never {
  console.error(message);
  process.exit(1);
}

function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<number> {
  return new Promise((resolve) => {
    spawn(command, args, { stdio: "inherit", cwd: PROJECT, env: { ...process.env, ...env } }).once("exit", (code) =>
      resolve(code ?? 1),
    );
  });
}

async function must(step: string, ...parameters: Parameters<typeof run>): Promise<void> {
  console.log(`\n== ${step}`);
  if ((await run(...parameters)) !== 0) throw new Error(`${step} failed.`);
}

/** What the API's URL becomes at the emulator. */
export function emulatedUrl(url: string, emulator: string): string {
  const { hostname, pathname } = new URL(url);
  const { port } = new URL(emulator);
  const id = hostname.split(".")[0];
  return `http://${id}.execute-api.localhost.localstack.cloud:${port}${pathname.replace(/\/$/, "")}`;
}

/** Until it answers anything at all: where an emulator says that it is well, and how, differs from one to the next. */
async function answering(url: string): Promise<void> {
  const end = Date.now() + START_MS;
  for (;;) {
    try {
      await fetch(url);
      return;
    } catch {
      if (Date.now() > end) throw new Error(`Nothing answers at ${url} after ${START_MS / 1000} s.`);
      await setTimeout(1000);
    }
  }
}

async function deploy(): Promise<string> {
  const cdk = (...args: string[]) => [LAUNCH, "--bin", "cdk", ...args];
  const outputs = path.join(await mkdtemp(path.join(tmpdir(), "mango-outputs-")), "outputs.json");
  const context = {
    stage: "emulated",
    retainData: "false",
    emulatorDatabase: "postgres:5432",
    modelBaseUrl: `http://host.docker.internal:${MODEL_PORT}`,
  };
  const settings = Object.entries(context).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  await must("bootstrap", process.execPath, cdk("bootstrap", "aws://000000000000/us-east-1", ...settings), AWS);
  const everything = ["--all", "--require-approval", "never", "--outputs-file", outputs];
  await must("deploy", process.execPath, cdk("deploy", ...everything, ...settings), AWS);
  const read = JSON.parse(await readFile(outputs, "utf8")) as Record<string, Record<string, string>>;
  await rm(path.dirname(outputs), { recursive: true });
  return emulatedUrl(read[STACK]?.["Url"] ?? "", EMULATOR);
}

if (spawnSync("docker", ["info"], { stdio: "ignore" }).status !== 0) {
  refuse("Docker is missing or not running: the emulator and its functions are containers. Nothing was tested.");
}
if (process.env["MANGO_EMULATOR_IMAGE"] === undefined && !process.env["LOCALSTACK_AUTH_TOKEN"]) {
  refuse(
    "LOCALSTACK_AUTH_TOKEN is not set: LocalStack starts with a token only. MANGO_EMULATOR_IMAGE names another emulator. " +
      "Nothing was tested.",
  );
}
const compose = (...args: string[]) => ["compose", "--file", COMPOSE, ...args];
let failed = true;
try {
  await must("emulator", "docker", compose("up", "--detach"));
  await answering(EMULATOR);
  // What an emulator does differently is worth knowing before a test fails of it, and is no failure itself.
  await run(process.execPath, [LAUNCH, "localstack/report-parity.ts"], AWS);
  const url = await deploy();
  const [apiKey, environmentKey] = [newSecret("sk-mango-api"), newSecret("sk-mango-env")];
  const environmentId = await seed(DATABASE, { apiKey, environmentKey });
  await must("tests", process.execPath, [LAUNCH, "test/e2e/main.ts"], {
    MANGO_URL: url,
    MANGO_API_KEY: apiKey,
    MANGO_ENVIRONMENT_ID: environmentId,
    MANGO_ENVIRONMENT_KEY: environmentKey,
    MANGO_TEST_MODEL_PORT: MODEL_PORT,
  });
  failed = false;
} catch (error) {
  console.error((error as Error).message);
} finally {
  if (!process.argv.includes("--keep")) {
    await run("docker", compose("down", "--volumes"));
  }
}
process.exit(failed ? 1 : 0);
