import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Log } from "../shared/ports/log.ts";
import { EXIT } from "../worker/exit-codes.ts";
import { ALLOW_PROCESS } from "../worker/sandbox/launcher.ts";

const WORKER = fileURLToPath(new URL("../worker/main.ts", import.meta.url));
/** Exit codes of the worker that a restart cannot mend. */
const FINAL_CODES: readonly number[] = [EXIT.usage, EXIT.refused, EXIT.noLauncher];
/** What the worker may know of our environment: never our API key or the model's, which its tools could read there. */
const PASSED_ON = [
  ...["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM", "NODE_COMPILE_CACHE"],
  // Where the docker launcher's engine is.
  ...["DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"],
];

function passedOn(): Record<string, string> {
  return Object.fromEntries(
    PASSED_ON.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

/** A worker that died is started again after this long. */
const RESTART_MS = 1000;

/** Where the bundled worker's tools run. */
export interface ToolSettings {
  readonly launcher: "auto" | "bwrap" | "docker" | "process";
  readonly network: "none" | "host";
  /** Leave for the process launcher, which isolates nothing: the offline model needs it, or the operator gave it. */
  readonly allowProcess: boolean;
}

export interface BundledWorkerOptions {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
  readonly workspaceRoot: string;
  readonly tools: ToolSettings;
  readonly logFormat: "text" | "json";
  readonly log: Log;
  /** Keeps the worker's own log off the terminal. */
  readonly silent?: boolean;
}

/**
 * The worker as a process of its own, as it would run on another machine: it knows the server's URL and its key, and
 * nothing else. It ends with us, however we end: its standard input closes. The key travels in its environment, not in
 * its arguments.
 */
export function startBundledWorker(options: BundledWorkerOptions): { stop(): Promise<void> } {
  let stopping = false;
  let child: ChildProcess | undefined;
  const start = () => {
    child = spawn(
      process.execPath,
      [
        WORKER,
        "run",
        "--exit-with-parent",
        "--url",
        options.url,
        "--environment-id",
        options.environmentId,
        "--workspace-root",
        options.workspaceRoot,
        "--launcher",
        options.tools.launcher,
        "--network",
        options.tools.network,
        "--log-format",
        options.logFormat,
      ],
      {
        stdio: ["pipe", "ignore", options.silent ? "ignore" : "inherit"],
        env: {
          ...passedOn(),
          MANGO_ENVIRONMENT_KEY: options.environmentKey,
          ...(options.tools.allowProcess ? { [ALLOW_PROCESS]: "1" } : {}),
        },
      },
    );
    child.on("exit", (code) => {
      if (!stopping && FINAL_CODES.includes(code ?? 0)) {
        options.log.error("The bundled worker ended for good; its tools do not run.", { code });
      } else if (!stopping) {
        options.log.warn("The bundled worker ended and is started again.", { code });
        setTimeout(() => stopping || start(), RESTART_MS).unref();
      }
    });
  };
  start();
  return {
    async stop() {
      stopping = true;
      const running = child;
      if (running === undefined || running.exitCode !== null || running.signalCode !== null) {
        return;
      }
      const ended = new Promise<void>((resolve) => running.once("exit", () => resolve()));
      running.kill("SIGTERM");
      await ended;
    },
  };
}
