import type { Environment, Sandbox } from "../sandbox/launcher.ts";
import { Workspace } from "../workspace.ts";
import { bashTool } from "./bash.ts";
import { FILE_TOOLS, type FileToolName, type FileTools, localFileTools } from "./file-tools.ts";
import { remoteFileTools } from "./remote-file-tools.ts";
import { StopReason, type Tool, type ToolResult } from "./tool.ts";

/** For every tool but bash, whose calls carry their own. */
const TIME_LIMIT_MS = 120_000;

/** A call of a tool, as the session's events have it. */
export interface ToolRequest {
  readonly name: string;
  readonly input: unknown;
  /** Fixed before the call was published; the same however often the call is handed out. */
  readonly idempotencyKey: string | null;
}

/** The six tools of `agent_toolset_20260401`, bound to one session's sandbox for one activation. */
export class Toolset {
  readonly #bash: Tool;
  readonly #files: FileTools;
  /** Of the latest call. */
  #limit: AbortController | null = null;

  private constructor(bash: Tool, files: FileTools) {
    this.#bash = bash;
    this.#files = files;
  }

  static async open(sandbox: Sandbox, env: Environment): Promise<Toolset> {
    const { launchFileTools } = sandbox;
    const files =
      launchFileTools === null
        ? localFileTools(await Workspace.at(sandbox.workspace), env)
        : remoteFileTools(() => launchFileTools(env));
    return new Toolset(bashTool(sandbox, env), files);
  }

  has(name: string): boolean {
    return name === "bash" || isFileTool(name);
  }

  async run({ name, input, idempotencyKey }: ToolRequest, signal: AbortSignal): Promise<ToolResult> {
    const limit = new AbortController();
    const either = AbortSignal.any([signal, limit.signal]);
    this.#limit = limit;
    if (name === "bash") return this.#bash.run(input, either, idempotencyKey);
    if (!isFileTool(name)) return { text: `${name}: no such tool on this worker`, isError: true };

    const timer = setTimeout(() => limit.abort(new StopReason(`timed out after ${TIME_LIMIT_MS} ms`)), TIME_LIMIT_MS);
    try {
      return await this.#files.run(name, input, either);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the running call with that reason, and the shell with all that commands left running. */
  stopPrograms(why: string): void {
    this.#limit?.abort(new StopReason(why));
    this.#bash.close();
  }

  close(): void {
    this.#bash.close();
    this.#files.close();
  }
}

function isFileTool(name: string): name is FileToolName {
  return (FILE_TOOLS as readonly string[]).includes(name);
}
