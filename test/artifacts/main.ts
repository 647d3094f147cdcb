/**
 * Serves the AWS edition on this machine, from a real `cdk synth`, for whoever wants to look: prints the settings that
 * `npm run test:e2e` needs, and stays until it is interrupted. `npm run test:region` is the same and runs those tests at
 * once; its exit code is theirs. The model is expected at `MANGO_TEST_MODEL_PORT` (9797), where the tests open theirs.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { startDeployedServer } from "./deployed-server.ts";

const TESTS = fileURLToPath(new URL("../e2e/main.ts", import.meta.url));
const port = process.env["MANGO_TEST_MODEL_PORT"] ?? "9797";

console.error("Synthesises the stacks and starts a region in miniature: about half a minute.");
const server = await startDeployedServer({ modelUrl: `http://127.0.0.1:${port}` });
const settings = {
  MANGO_URL: server.url,
  MANGO_API_KEY: server.apiKey,
  MANGO_ENVIRONMENT_ID: server.environmentId,
  MANGO_ENVIRONMENT_KEY: server.environmentKey,
  MANGO_TEST_MODEL_PORT: port,
};
// What EventBridge's schedule and SQS do by themselves.
const timers = [
  setInterval(() => void server.region.events.tick().catch(() => {}), 60_000),
  setInterval(() => void server.region.events.deliver().catch(() => {}), 11_000),
];
const close = async (exitCode: number) => {
  timers.forEach(clearInterval);
  await server.close();
  process.exit(exitCode);
};
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void close(0));
}

const [command, ...filters] = process.argv.slice(2);
if (command === "test") {
  const tests = spawn(process.execPath, [TESTS, ...filters], {
    stdio: "inherit",
    env: { ...process.env, ...settings },
  });
  const [exitCode] = (await once(tests, "exit")) as [number | null];
  await close(exitCode ?? 1);
} else {
  console.log(
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
  );
}
