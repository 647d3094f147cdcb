import { spawn } from "node:child_process";
import type { Environment, LaunchedProcess, ProcessEnd } from "./launcher.ts";

const live = new Set<number>();
let exitHook = false;

export interface StartRequest {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Environment;
}

/** Starts a program on this host, the leader of its own process group, which ends with this process's own exit. */
export function startProcess({ program, args, cwd, env }: StartRequest): LaunchedProcess {
  killLiveOnExit();
  const child = spawn(program, [...args], { cwd, env: { ...env }, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const { pid } = child;
  if (pid !== undefined) live.add(pid);
  // A program that ends before reading its input would otherwise raise EPIPE here.
  child.stdin.on("error", () => {});

  const exited = new Promise<ProcessEnd>((resolve) => {
    child.once("error", (error) => resolve({ code: null, signal: null, startError: codeOf(error) }));
    child.once("exit", (code, signal) => {
      // At once, while the group's number cannot have been given to another: what the program left behind goes too.
      if (pid !== undefined) end(pid);
      resolve({ code, signal });
    });
  });

  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    kill: () => {
      if (pid !== undefined) end(pid);
    },
  };
}

function end(pid: number): void {
  if (!live.delete(pid)) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // ESRCH: the group is empty.
  }
}

function killLiveOnExit(): void {
  if (exitHook) return;
  exitHook = true;
  process.once("exit", () => {
    for (const pid of [...live]) end(pid);
  });
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? "unknown";
}
