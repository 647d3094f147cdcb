/**
 * The server as a process that dies at a chosen point:
 *
 *   node test/faults/fault-server.ts --database <url> --model <url> --port <n> [--workspaces <path>] [--crash <n>:<side>]
 *
 * Writes one JSON line when it is ready, one before it kills itself, and at SIGTERM one with the points passed.
 */
import { writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { startBundledWorker } from "../../local/bundled-worker.ts";
import { startEmbedded } from "../../local/embedded.ts";
import { messagesModel } from "../../shared/model/messages-model.ts";
import type { Log, LogFields } from "../../shared/ports/log.ts";
import { faultPoints, type Side } from "./fault-points.ts";

const { values } = parseArgs({
  options: {
    database: { type: "string" },
    model: { type: "string" },
    port: { type: "string", default: "0" },
    key: { type: "string" },
    workspaces: { type: "string" },
    crash: { type: "string" },
  },
});

const say = (line: object) => writeSync(1, `${JSON.stringify(line)}\n`);
const write = (level: string) => (message: string, fields?: LogFields) =>
  void writeSync(2, `${JSON.stringify({ level, message, ...fields })}\n`);
const log: Log = { debug() {}, info() {}, warn: write("warn"), error: write("error") };

const [n, side] = (values.crash ?? "").split(":");
const points = faultPoints({
  crash: n ? { n: Number(n), side: side as Side } : null,
  dying: (crashed) => say({ crashed }),
});
const embedded = await startEmbedded({
  connectionString: required("database"),
  model: messagesModel({ baseURL: required("model"), apiKey: "fault", auth: "x-api-key" }),
  host: "127.0.0.1",
  port: Number(values.port),
  apiKey: required("key"),
  log,
  leaseSeconds: 1,
  decorate: points.decorate,
});
const worker =
  values.workspaces === undefined
    ? undefined
    : startBundledWorker({
        ...embedded,
        workspaceRoot: values.workspaces,
        tools: { launcher: "process", network: "none", allowProcess: true },
        logFormat: "json",
        log,
        silent: true,
      });
say({ ready: { url: embedded.url, environmentId: embedded.environmentId, environmentKey: embedded.environmentKey } });

// A test that was killed itself must leave nothing behind.
process.stdin.once("end", () => process.exit(1)).resume();
process.once("SIGTERM", async () => {
  say({ points: points.passed });
  await worker?.stop();
  await embedded.stop();
  process.exit(0);
});

function required(name: "database" | "model" | "key"): string {
  const value = values[name];
  if (value === undefined) throw new Error(`--${name} is missing.`);
  return value;
}
