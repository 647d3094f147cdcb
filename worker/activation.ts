import type { Log } from "../shared/ports/log.ts";
import type { ApiClient } from "./api-client.ts";
import { DiskGuard } from "./disk-guard.ts";
import { Journal } from "./journal.ts";
import type { Lease } from "./lease.ts";
import { prepare } from "./preparation-error.ts";
import type { Launcher } from "./sandbox/launcher.ts";
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
  /** What the session's folder may hold, in bytes. */
  readonly diskBytes: number;
  readonly maxIdleMs: number;
  readonly drainMs: number;
  readonly log: Log;
}

/**
 * The time in which this worker serves one session: its workspace, its journal, its sandbox. Rejects with a
 * `PreparationError` when it cannot have them.
 */
export async function activate(options: ActivationOptions, stop: AbortSignal): Promise<RunEnd> {
  const { client, sessionId, lease, workspaceRoot, launcher, log } = options;
  const workspace = await prepare("the session's folder", Workspace.open(workspaceRoot, sessionId));
  const journal = await prepare("the session's journal", Journal.open(workspaceRoot, sessionId));
  try {
    const sandbox = await prepare("the session's sandbox", launcher.enter({ sessionId, folder: workspace.path }));
    try {
      const tools = await prepare("the session's tools", Toolset.open(sandbox, options.toolEnv));
      const guard = new DiskGuard({
        folder: workspace.path,
        limitBytes: options.diskBytes,
        onFull: (why) => {
          log.warn("the session's programs are ended", { session: sessionId, why });
          tools.stopPrograms(why);
        },
      });
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
      try {
        return await runner.run(stop);
      } finally {
        if (runner.leavesBegun) lease.leaveToRunOut();
        guard.close();
        tools.close();
      }
    } finally {
      await sandbox.close();
    }
  } finally {
    await journal.close();
  }
}
