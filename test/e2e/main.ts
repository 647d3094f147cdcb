/**
 * `npm run test:e2e`: the black-box tests against `MANGO_URL`, or against the embedded edition without it.
 *
 * One file after the other, because the target knows one address of a model: the tests' own, on `MANGO_TEST_MODEL_PORT`.
 */
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";

const NEEDED = ["MANGO_API_KEY", "MANGO_ENVIRONMENT_ID", "MANGO_ENVIRONMENT_KEY", "MANGO_TEST_MODEL_PORT"];

const external = process.env["MANGO_URL"] !== undefined;
const missing = external ? NEEDED.filter((name) => !process.env[name]) : [];
if (missing.length > 0) {
  console.error(
    `With MANGO_URL the tests need ${missing.join(", ")} too: a key, an environment with a key for its worker, and the ` +
      `port where the target's model base URL (http://<this machine>:<port>) finds the tests' own model.`,
  );
  process.exit(2);
}
const vitest = path.join(path.dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const patience = external ? ["--no-file-parallelism", "--test-timeout=180000", "--hook-timeout=60000"] : [];
// Vitest takes every word for another filter; ours narrow this folder.
const words = process.argv.slice(2);
const filters = words.filter((word) => !word.startsWith("-")).map((word) => `test/e2e/${word}`);
const flags = words.filter((word) => word.startsWith("-"));
const which = filters.length > 0 ? filters : ["test/e2e"];
const child = spawn(process.execPath, [vitest, "run", ...which, ...patience, ...flags], {
  stdio: "inherit",
});
child.once("exit", (code) => process.exit(code ?? 1));
