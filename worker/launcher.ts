import type { Readable, Writable } from "node:stream";

/**
 * Where a tool's program runs. The process launcher starts it beside the worker, as the worker's own user; a launcher
 * that isolates (a namespace sandbox, a container) takes the same request and nothing else changes.
 */
export interface Launcher {
  readonly name: string;
  launch(request: LaunchRequest): LaunchedProcess;
}

export interface LaunchRequest {
  /** Absolute path of the program. */
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment: nothing of the worker's own is added. */
  readonly env: Readonly<Record<string, string>>;
}

export interface LaunchedProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Settles when the program ends or could not start; never rejects. */
  readonly exited: Promise<ProcessEnd>;
  /** Ends the program and all that it started in its process group, at once. */
  kill(): void;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why the program could not start. */
  readonly startError?: string;
}
