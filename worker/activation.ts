import type { Log } from "../shared/ports/log.ts";
import type { ApiClient } from "./api-client.ts";
import { Journal } from "./journal.ts";
import type { Launcher } from "./launcher.ts";
import type { Lease } from "./lease.ts";
import { type RunEnd, SessionToolRunner } from "./session-tool-runner.ts";
import { Toolset } from "./tools/toolset.ts";
import { Workspace } from "./workspace.ts";

export interface ActivationOptions {
  readonly client: ApiClient;
  readonly sessionId: string;
  readonly lease: Lease;
  readonly workspaceRoot: string;
  readonly launcher: Launcher;
  readonly toolEnv: Readonly<Record<string, string>>;
  readonly maxIdleMs: number;
  readonly drainMs: number;
  readonly log: Log;
}

/** The time in which this worker serves one session: its workspace, its journal, its shell. */
export async function activate(options: ActivationOptions, stop: AbortSignal): Promise<RunEnd> {
  const { client, sessionId, lease, workspaceRoot, launcher, log } = options;
  const workspace = await Workspace.open(workspaceRoot, sessionId);
  const journal = await Journal.open(workspaceRoot, sessionId);
  const tools = new Toolset({ workspace, launcher, env: options.toolEnv });
  try {
    const runner = new SessionToolRunner({
      client,
      sessionId,
      tools,
      journal,
      log,
      maxIdleMs: options.maxIdleMs,
      drainMs: options.drainMs,
      sendWindowMs: () => lease.ttlMs,
      mayDeliver: () => !lease.lost,
    });
    return await runner.run(stop);
  } finally {
    tools.close();
    await journal.close();
  }
}
