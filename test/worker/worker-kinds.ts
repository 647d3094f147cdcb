/** The workers that people run: both official SDKs' own, unmodified, and ours under both launchers of this machine. */
import { mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "vitest";
import { VERSIONS } from "../contract/sdk-clients.ts";
import { removeFolder } from "../remove-folder.ts";
import { needBwrap } from "./bwrap-here.ts";
import { type Served, startWorkerProcess } from "./worker-process.ts";

export interface RunningWorker {
  /** Where on this machine the file of a session's folder is. */
  fileOf(sessionId: string, name: string): string;
  /** How the worker's tools name that file. */
  shown(sessionId: string, name: string): string;
  stop(): Promise<void>;
}

export interface WorkerKind {
  readonly name: string;
  /** A call that is closed while its command runs ends the command. The official workers let it run to its end. */
  readonly stopsCommands: boolean;
  readonly check?: (context: TestContext) => void;
  start(server: Served): Promise<RunningWorker>;
}

export async function temporaryRoot(): Promise<{ readonly root: string; remove(): Promise<void> }> {
  const root = await mkdtemp(path.join(tmpdir(), "mango-workers-"));
  return { root, remove: () => removeFolder(root) };
}

const officialWorkers: readonly WorkerKind[] = VERSIONS.map(([version, Client]) => ({
  name: `the worker of the official SDK ${version}`,
  stopsCommands: false,
  async start({ url, environmentId, environmentKey }) {
    const { root, remove } = await temporaryRoot();
    const stop = new AbortController();
    const client = new Client({ baseURL: url, authToken: environmentKey, logLevel: "off" });
    // It serves one session after another, all in one folder.
    const worker = client.beta.environments.work.worker({
      environmentId,
      environmentKey,
      workdir: root,
      maxIdleMs: 100,
    });
    const done = worker.run(stop.signal);
    done.catch(() => {});
    const fileOf = (_: string, name: string) => path.join(root, name);
    return {
      fileOf,
      shown: fileOf,
      async stop() {
        stop.abort();
        await done.catch(() => {});
        await remove();
      },
    };
  },
}));

const ownWorkers: readonly WorkerKind[] = (["process", "bwrap"] as const).map((launcher) => ({
  name: `our worker under ${launcher}`,
  stopsCommands: true,
  ...(launcher === "bwrap" ? { check: needBwrap } : {}),
  async start(server) {
    const { root, remove } = await temporaryRoot();
    const workspaceRoot = path.join(root, "workspaces");
    await mkdir(workspaceRoot, { mode: 0o700 });
    const worker = await startWorkerProcess(server, { launcher, workspaceRoot, flags: ["--max-idle", "100ms"] });
    const fileOf = (sessionId: string, name: string) => path.join(workspaceRoot, sessionId, name);
    return {
      fileOf,
      shown: launcher === "bwrap" ? (_: string, name: string) => `/workspace/${name}` : fileOf,
      async stop() {
        await worker.stop();
        await remove();
      },
    };
  },
}));

export const WORKER_KINDS = [...officialWorkers, ...ownWorkers];
