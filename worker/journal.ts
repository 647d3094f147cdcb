import { type FileHandle, mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { directoryName } from "./workspace.ts";

const Entry = z.object({ call: z.string(), state: z.enum(["started", "posted"]) });

/**
 * What this worker may have done, per session: `<workspace root>/.journal/<session>.jsonl`.
 *
 * `started` reaches the disk before a tool begins, `posted` follows once the server has accepted its result. A call
 * that is started and not posted when the file is opened was cut off: it may have had its effect, so it is not run
 * again. Whether a call still waits for an answer is decided by the session's events alone.
 */
export class Journal {
  /** Calls that an earlier activation began and whose result was never accepted. */
  readonly interrupted: ReadonlySet<string>;
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #unsettled: Set<string>;
  #writing: Promise<void> = Promise.resolve();

  private constructor(path: string, file: FileHandle, unsettled: ReadonlySet<string>) {
    this.#path = path;
    this.#file = file;
    this.interrupted = unsettled;
    this.#unsettled = new Set(unsettled);
  }

  static async open(workspaceRoot: string, sessionId: string): Promise<Journal> {
    const directory = join(workspaceRoot, ".journal");
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, `${directoryName(sessionId)}.jsonl`);
    const unsettled = unsettledCalls(await readIfThere(path));
    // Rewritten rather than appended to: it drops what is settled and a line that a crash cut short.
    const fresh = `${path}.new`;
    const file = await open(fresh, "w", 0o600);
    await file.appendFile([...unsettled].map((call) => line(call, "started")).join(""));
    await file.datasync();
    await rename(fresh, path);
    await syncDirectory(directory);
    return new Journal(path, file, unsettled);
  }

  /** Resolves once the record is on disk. */
  async started(call: string): Promise<void> {
    this.#unsettled.add(call);
    await this.#append(call, "started", true);
  }

  /** Not synced: if it is lost, the session's events still say that the call is answered. */
  async posted(call: string): Promise<void> {
    this.#unsettled.delete(call);
    await this.#append(call, "posted", false);
  }

  /** The file goes when nothing is unsettled; accepted results are in the session's events. */
  async close(): Promise<void> {
    await this.#writing.catch(() => {});
    await this.#file.close();
    if (this.#unsettled.size === 0) await rm(this.#path, { force: true });
  }

  #append(call: string, state: "started" | "posted", sync: boolean): Promise<void> {
    const written = this.#writing
      .catch(() => {})
      .then(async () => {
        await this.#file.appendFile(line(call, state));
        if (sync) await this.#file.datasync();
      });
    this.#writing = written;
    return written;
  }
}

function line(call: string, state: "started" | "posted"): string {
  return `${JSON.stringify({ call, state, at: new Date().toISOString() })}\n`;
}

function unsettledCalls(text: string): ReadonlySet<string> {
  const unsettled = new Set<string>();
  for (const row of text.split("\n")) {
    const entry = Entry.safeParse(parseOrNull(row));
    // A line cut short was never synced, so the tool it announced never began.
    if (!entry.success) continue;
    if (entry.data.state === "started") unsettled.add(entry.data.call);
    else unsettled.delete(entry.data.call);
  }
  return unsettled;
}

function parseOrNull(row: string): unknown {
  try {
    return JSON.parse(row);
  } catch {
    return null;
  }
}

async function readIfThere(path: string): Promise<string> {
  return readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  await directory.sync().finally(() => directory.close());
}
