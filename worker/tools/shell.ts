import { randomUUID } from "node:crypto";
import type { LaunchedProcess } from "../sandbox/launcher.ts";

/** What a command's output is cut to: its end, where the error is. */
export const OUTPUT_LIMIT_CHARS = 102_400;
/** Colour and cursor sequences vanish from the output, so more than the limit is kept until the end. */
const KEPT_CHARS = 4 * OUTPUT_LIMIT_CHARS;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for
const ANSI = /\x1b\[[0-9;?]*[ -/]*[@-~]/g;

export type CommandEnd =
  | { readonly type: "done"; readonly output: string; readonly exitCode: number }
  /** The shell itself ended: `exit`, `exec`, a signal. */
  | { readonly type: "shell_ended"; readonly output: string; readonly why: string }
  | { readonly type: "timed_out"; readonly output: string }
  | { readonly type: "aborted" };

export interface ShellCommand {
  readonly command: string;
  /** Stands in `MANGO_IDEMPOTENCY_KEY` while the command runs: what it does outside can be made to happen once. */
  readonly idempotencyKey: string | null;
}

/**
 * One bash process that runs one command after another, so that `cd`, variables and functions persist.
 *
 * A command is `eval`ed inside a group whose input is /dev/null and whose output is one pipe; afterwards the shell
 * prints a mark with a number that the command cannot know, and the exit code. `eval` keeps a syntax error inside the
 * group; because the group's output is redirected (to a copy of itself), a command that redirects the shell's output
 * does so only until the group ends. After anything but
 * `done` the shell is of no use and must be closed.
 */
export class Shell {
  readonly #process: LaunchedProcess;
  #text = "";
  #cut = false;
  #mark: string | null = null;
  #onMark: ((exitCode: number) => void) | null = null;
  #ended = false;

  /** `process` is a bash that reads commands from its standard input. */
  constructor(process: LaunchedProcess) {
    this.#process = process;
    // The shell's own complaints (a `set -x` trace of the mark) are nobody's output; commands write to stdout.
    this.#process.stderr.resume();
    this.#process.stdout.setEncoding("utf8");
    this.#process.stdout.on("data", (text: string) => this.#read(text));
    this.#process.stdin.write("exec 9>&1\n");
    void this.#process.exited.then(() => {
      this.#ended = true;
    });
  }

  get ended(): boolean {
    return this.#ended;
  }

  async run({ command, idempotencyKey }: ShellCommand, timeoutMs: number, signal: AbortSignal): Promise<CommandEnd> {
    if (signal.aborted) return { type: "aborted" };
    // Written in two halves, so that a shell which shows each command (a DEBUG trap) does not show the mark itself.
    const halves = ["__MANGO_", `${randomUUID()}__`] as const;
    const mark = halves.join("");
    this.#text = "";
    this.#cut = false;
    this.#mark = mark;

    const { promise, resolve } = Promise.withResolvers<CommandEnd>();
    this.#onMark = (exitCode) => resolve({ type: "done", output: this.#output(), exitCode });
    void this.#process.exited.then(async (end) => {
      await this.#drained();
      const why = end.startError ?? (end.signal ? `signal ${end.signal}` : `exit code ${end.code}`);
      resolve({ type: "shell_ended", output: this.#output(), why });
    });
    const timer = setTimeout(() => resolve({ type: "timed_out", output: this.#output() }), timeoutMs);
    const onAbort = () => resolve({ type: "aborted" });
    signal.addEventListener("abort", onAbort, { once: true });

    this.#process.stdin.write(
      `${keyFor(idempotencyKey)}\n{ eval ${quoted(command)}\n} </dev/null >&9 2>&1 9>&-\nbuiltin printf '\\n%s%s%d\\n' '${halves[0]}' '${halves[1]}' "$?"\n`,
    );
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      this.#mark = null;
      this.#onMark = null;
    }
  }

  /** Kills the shell and whatever it started. */
  close(): void {
    this.#ended = true;
    this.#process.kill();
    this.#process.stdin.destroy();
    this.#process.stdout.destroy();
    this.#process.stderr.destroy();
  }

  #read(text: string): void {
    if (this.#mark === null) return;
    const searchFrom = Math.max(0, this.#text.length - this.#mark.length - 16);
    this.#text += text;
    const at = this.#text.indexOf(this.#mark, searchFrom);
    const exitCode = at < 0 ? null : /^(\d+)\n/.exec(this.#text.slice(at + this.#mark.length));
    if (exitCode !== null) {
      this.#text = this.#text.slice(0, at);
      this.#onMark?.(Number(exitCode[1]));
      return;
    }
    if (this.#text.length > 2 * KEPT_CHARS) {
      this.#text = this.#text.slice(-KEPT_CHARS);
      this.#cut = true;
    }
  }

  #output(): string {
    const text = this.#text.replace(ANSI, "").replace(/\n+$/, "");
    if (!this.#cut && text.length <= OUTPUT_LIMIT_CHARS) return text;
    // Half of a surrogate pair at the cut could not be sent.
    return `[output truncated]\n${text.slice(-OUTPUT_LIMIT_CHARS).replace(/^[\udc00-\udfff]/, "")}`;
  }

  /** The last words of a shell that has ended; a child that left its group may hold the pipe open for ever. */
  #drained(): Promise<void> {
    const { stdout } = this.#process;
    if (stdout.readableEnded || stdout.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, 200);
      stdout.once("close", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

function keyFor(idempotencyKey: string | null): string {
  return idempotencyKey === null
    ? "unset MANGO_IDEMPOTENCY_KEY"
    : `export MANGO_IDEMPOTENCY_KEY=${quoted(idempotencyKey)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
