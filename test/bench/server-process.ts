import { spawn } from "node:child_process";
import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { removeFolder } from "../remove-folder.ts";

/** What `npm start` runs; under our Node it becomes the server, in the same process. */
const LAUNCH = fileURLToPath(new URL("../../local/launch.mjs", import.meta.url));
export const KEY = "sk-mango-bench-key-00000";

export interface ServerProcess {
  readonly url: string;
  readonly environmentId: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/** The server as users start it, in a process and a data folder of its own, talking to the given model endpoint. */
export async function startServerProcess(
  modelUrl: string,
  options: {
    readonly databaseUrl?: string;
    /** Where the worker's tools run; `process` by default, which every machine has. */
    readonly launcher?: "process" | "bwrap";
    readonly workspaceRoot?: string;
  } = {},
): Promise<ServerProcess> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "mango-bench-"));
  await chmod(dataDir, 0o711);
  const child = spawn(process.execPath, [LAUNCH, "local/main.ts"], {
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      MANGO_PORT: "0",
      MANGO_DATA_DIR: dataDir,
      MANGO_API_KEY: KEY,
      MANGO_MODEL_BASE_URL: modelUrl,
      MANGO_MODEL_API_KEY: "bench",
      // The model is a script of ours.
      MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER: "1",
      MANGO_WORKER_LAUNCHER: options.launcher ?? "process",
      ...(options.workspaceRoot === undefined ? {} : { MANGO_WORKSPACE_ROOT: options.workspaceRoot }),
      ...(options.databaseUrl === undefined ? {} : { MANGO_DATABASE_URL: options.databaseUrl }),
    },
  });
  let output = "";
  const { url, environmentId } = await new Promise<{ url: string; environmentId: string }>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The server ended with ${code} before it was ready.\n${output}`)));
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const address = /address +(\S+)/.exec(output)?.[1];
      const environment = /environment +(\S+)/.exec(output)?.[1];
      if (address !== undefined && environment !== undefined && output.includes("Ctrl-C")) {
        resolve({ url: address, environmentId: environment });
      }
    });
  });
  return {
    url,
    environmentId,
    pid: child.pid ?? 0,
    async stop() {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      await removeFolder(dataDir);
    },
  };
}
