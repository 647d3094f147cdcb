import { constants } from "node:fs";
import { access, realpath, stat } from "node:fs/promises";
import { delimiter, isAbsolute, join } from "node:path";
import { isWithin } from "../confinement.ts";
import type { Environment } from "../sandbox/launcher.ts";
import { startProcess } from "../sandbox/start-process.ts";
import { GrepOutput, TIME_LIMIT_MS } from "./grep-output.ts";
import { stopReason, ToolFailure } from "./tool.ts";

/** The first `rg` on the path that lies outside the workspace: inside, a tool could have planted it. */
export async function findRipgrep(path: string, workspace: string): Promise<string | null> {
  for (const directory of path.split(delimiter).filter(isAbsolute)) {
    const candidate = join(directory, "rg");
    try {
      await access(candidate, constants.X_OK);
      const real = await realpath(candidate);
      if ((await stat(real)).isFile() && !isWithin(workspace, real)) return real;
    } catch {
      // Not in this directory.
    }
  }
  return null;
}

export interface RipgrepSearch {
  readonly env: Environment;
  readonly program: string;
  readonly cwd: string;
  readonly pattern: string;
  readonly root: string;
  readonly signal: AbortSignal;
}

export async function searchWithRipgrep(search: RipgrepSearch): Promise<string> {
  const { pattern, root, signal, program, cwd, env } = search;
  const args = ["--no-config", "-n", "--no-heading", "-e", pattern, "--", root];
  const rg = startProcess({ program, args, cwd, env });
  rg.stdin.end();
  const output = new GrepOutput();
  let complaint = "";
  rg.stdout.setEncoding("utf8").on("data", (text: string) => {
    if (!output.add(text)) rg.kill();
  });
  rg.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (complaint.length < 2_000) complaint += text;
  });
  const closed = new Promise<void>((resolve) => rg.stdout.once("close", resolve));

  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    rg.kill();
  }, TIME_LIMIT_MS);
  signal.addEventListener("abort", rg.kill, { once: true });
  try {
    const end = await rg.exited;
    if (end.startError !== undefined) throw new ToolFailure(`grep: rg failed: ${end.startError}`);
    await closed;
    if (signal.aborted) throw new ToolFailure(`grep: ${stopReason(signal)}`);
    if (timedOut && !output.full) return output.cutShort();
    // 1 means that nothing was found.
    if (output.full || end.code === 0 || end.code === 1) return output.toString();
    throw new ToolFailure(`grep: rg failed: ${complaint.trim() || `exit ${end.code}`}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", rg.kill);
  }
}
