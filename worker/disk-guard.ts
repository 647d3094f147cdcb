import { execFile } from "node:child_process";
import { statfs } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const LOOK_MS = 1_000;
/** Measuring takes at most this share of the time: a folder may hold a million files. */
const SHARE = 0.1;
const MEASURE_TIMEOUT_MS = 30_000;
/** What the host keeps for itself on the disk of the workspaces, in bytes and in files. */
const RESERVE_BYTES = 512 * 1024 ** 2;
const RESERVE_FILES = 10_000;

export interface DiskGuardOptions {
  /** The session's folder, on the host. */
  readonly folder: string;
  readonly limitBytes: number;
  /** Says why the session's programs must end. May be called again, should they go on filling. */
  readonly onFull: (why: string) => void;
}

/**
 * Looks at what a session's folder holds while its programs run. It is a check and no wall: between two looks programs
 * can write what the disk takes in a second, which is what the reserve is for. Only growth counts, so that a folder
 * which is over its limit can be cleaned up.
 */
export class DiskGuard {
  readonly #options: DiskGuardOptions;
  readonly #over = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #allowed: number;
  #free = Number.POSITIVE_INFINITY;

  constructor(options: DiskGuardOptions) {
    this.#options = options;
    this.#allowed = options.limitBytes;
    this.#lookIn(LOOK_MS);
  }

  close(): void {
    this.#over.abort();
    clearTimeout(this.#timer);
  }

  #lookIn(ms: number): void {
    this.#timer = setTimeout(async () => {
      const since = performance.now();
      // A look that fails is made up for by the next.
      await this.#look().catch(() => {});
      if (!this.#over.signal.aborted) this.#lookIn(Math.max(LOOK_MS, (performance.now() - since) / SHARE));
    }, ms).unref();
  }

  async #look(): Promise<void> {
    const { folder, limitBytes, onFull } = this.#options;
    const disk = await statfs(folder);
    const free = disk.bavail * disk.bsize;
    // Some file systems count no files.
    const scarce = free < RESERVE_BYTES || (disk.files > 0 && disk.ffree < RESERVE_FILES);
    const shrinking = free < this.#free;
    this.#free = free;
    if (scarce && shrinking) return onFull("the disk of the session's folder is almost full");

    const used = await bytesIn(folder, this.#over.signal);
    if (used === "hidden") return onFull("the session's folder holds a folder whose size cannot be measured");
    if (used > this.#allowed) onFull(`the session's folder holds more than ${limitBytes} bytes`);
    this.#allowed = Math.max(limitBytes, used);
  }
}

/** What the folder takes on its disk, links not followed; `hidden` when part of it may not be looked into. */
async function bytesIn(folder: string, signal: AbortSignal): Promise<number | "hidden"> {
  const settings = { timeout: MEASURE_TIMEOUT_MS, signal, env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C" } };
  const measured = await run("du", ["-skx", "--", folder], settings).catch(
    (error: { stdout?: string; stderr?: string }) => {
      if (signal.aborted) throw error;
      return { stdout: error.stdout ?? "", stderr: error.stderr ?? "" };
    },
  );
  if (measured.stderr.includes("Permission denied")) return "hidden";
  // Files that went while they were counted are a complaint, not a failure.
  const kib = /^\d+/.exec(measured.stdout)?.[0];
  if (kib === undefined) throw new Error("du gave no size");
  return Number(kib) * 1024;
}
