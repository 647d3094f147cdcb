import type { Readable, Writable } from "node:stream";

export const LAUNCHERS = ["bwrap", "docker", "process"] as const;
/** The variable by which whoever runs a worker gives leave for `process`: "1". */
export const ALLOW_PROCESS = "MANGO_ALLOW_UNSAFE_PROCESS_LAUNCHER";
export type LauncherName = (typeof LAUNCHERS)[number];

/**
 * Where the programs of a session's tools run: beside the worker (`process`, which isolates nothing), in namespaces of
 * their own (`bwrap`), or in a container (`docker`).
 */
export interface Launcher {
  readonly name: LauncherName;
  /** A place for one activation of a session. Rejects when there is none to be had. */
  enter(place: Place): Promise<Sandbox>;
}

export interface Place {
  readonly sessionId: string;
  /** The session's folder on this host: absolute and free of links. */
  readonly folder: string;
}

export interface Sandbox {
  /** The session's folder, as the programs see it; they start there. */
  readonly workspace: string;
  /** Starts a program. Rejects only when the place itself is gone. */
  launch(request: LaunchRequest): Promise<LaunchedProcess>;
  /**
   * Starts the program of our own that reads, writes and searches files in there. Null where the worker's own process
   * sees what the programs see: then it does that itself.
   */
  readonly launchFileTools: ((env: Environment) => Promise<LaunchedProcess>) | null;
  /** Ends every program in it, and the place; idempotent. */
  close(): Promise<void>;
}

/** Variables of a program: all that it gets, since nothing of the worker's own is added. */
export type Environment = Readonly<Record<string, string>>;

export interface LaunchRequest {
  /** Absolute path of the program. */
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Environment;
}

export interface LaunchedProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Settles when the program ends or could not start; never rejects. */
  readonly exited: Promise<ProcessEnd>;
  /**
   * Ends the program at once, with all that it started: under `process` what is left in its process group, elsewhere
   * every descendant.
   */
  kill(): void;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: string | null;
  /** Why the program could not start. */
  readonly startError?: string;
}
