/**
 * Serves the AWS edition on this machine, from a real `cdk synth`, until it is interrupted: for `npm run test:e2e`, and
 * for whoever wants to look. Prints the settings that the tests need. The model is expected at `MANGO_TEST_MODEL_PORT`
 * (9797), where those tests open theirs.
 */
import { startDeployedServer } from "./deployed-server.ts";

const port = process.env["MANGO_TEST_MODEL_PORT"] ?? "9797";
const server = await startDeployedServer({ modelUrl: `http://127.0.0.1:${port}` });
console.log(
  [
    `MANGO_URL=${server.url}`,
    `MANGO_API_KEY=${server.apiKey}`,
    `MANGO_ENVIRONMENT_ID=${server.environmentId}`,
    `MANGO_ENVIRONMENT_KEY=${server.environmentKey}`,
    `MANGO_TEST_MODEL_PORT=${port}`,
  ].join("\n"),
);
// What EventBridge's schedule and SQS do by themselves.
const timers = [
  setInterval(() => void server.region.events.tick().catch(() => {}), 60_000),
  setInterval(() => void server.region.events.deliver().catch(() => {}), 11_000),
];
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    timers.forEach(clearInterval);
    void server.close().then(() => process.exit(0));
  });
}
