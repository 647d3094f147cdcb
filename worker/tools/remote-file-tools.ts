import type { LaunchedProcess } from "../sandbox/launcher.ts";
import type { FileToolName, FileTools } from "./file-tools.ts";
import { FileToolsReply, type FileToolsRequest } from "./file-tools-protocol.ts";
import { failed, stopReason, type ToolResult } from "./tool.ts";

/** Far above any answer: the longest is a file of 256 KiB, whose JSON may take six bytes for one. */
const LONGEST_REPLY_CHARS = 4_194_304;

/** In a program of their own inside the session's sandbox, which starts with the first call and again if it ends. */
export function remoteFileTools(launch: () => Promise<LaunchedProcess>): FileTools {
  let program: Promise<FileToolsProgram> | null = null;
  let closed = false;

  return {
    async run(name, input, signal) {
      if (signal.aborted || closed) return failed(`${name}: ${stopReason(signal)}`);
      program ??= launch().then((started) => new FileToolsProgram(started));
      try {
        const current = await program;
        void current.ended.then(() => {
          program = null;
        });
        return await current.run(name, input, signal);
      } catch {
        program = null;
        return failed(`${name}: the session's sandbox could not be entered`);
      }
    },
    close() {
      closed = true;
      void program?.then((current) => current.close()).catch(() => {});
    },
  };
}

class FileToolsProgram {
  readonly ended: Promise<void>;
  readonly #process: LaunchedProcess;
  readonly #waiting = new Map<number, (result: ToolResult | null) => void>();
  #calls = 0;
  #text = "";

  constructor(started: LaunchedProcess) {
    this.#process = started;
    started.stderr.resume();
    started.stdout.setEncoding("utf8").on("data", (text: string) => this.#read(text));
    this.ended = started.exited.then(() => {
      for (const answer of this.#waiting.values()) answer(null);
      this.#waiting.clear();
    });
  }

  async run(tool: FileToolName, input: unknown, signal: AbortSignal): Promise<ToolResult> {
    // It may have been told to stop while the program was starting.
    if (signal.aborted) return failed(`${tool}: ${stopReason(signal)}`);
    this.#calls += 1;
    const id = this.#calls;
    const { promise, resolve } = Promise.withResolvers<ToolResult | null>();
    const onAbort = () => {
      this.#send({ cancel: id });
      resolve(failed(`${tool}: ${stopReason(signal)}`));
    };
    this.#waiting.set(id, resolve);
    void this.ended.then(() => resolve(null));
    signal.addEventListener("abort", onAbort, { once: true });
    this.#send({ id, tool, input });
    try {
      return (await promise) ?? failed(`${tool}: the program that works on the session's files ended; effect unknown`);
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener("abort", onAbort);
    }
  }

  close(): void {
    this.#process.kill();
  }

  #send(request: FileToolsRequest): void {
    this.#process.stdin.write(`${JSON.stringify(request)}\n`);
  }

  /** What comes from in there is not to be trusted further than the session is: anything odd ends the program. */
  #read(text: string): void {
    const lines = (this.#text + text).split("\n");
    this.#text = lines.pop() ?? "";
    const replies = lines.map(parseReply);
    if (this.#text.length > LONGEST_REPLY_CHARS || replies.includes(null)) this.close();
    for (const reply of replies) {
      if (reply !== null) this.#waiting.get(reply.id)?.({ text: reply.text, isError: reply.isError });
    }
  }
}

function parseReply(line: string): FileToolsReply | null {
  try {
    return FileToolsReply.parse(JSON.parse(line));
  } catch {
    return null;
  }
}
