import type { Launcher } from "../launcher.ts";
import type { Workspace } from "../workspace.ts";
import { bashTool } from "./bash.ts";
import { editTool } from "./edit.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { readTool } from "./read.ts";
import { StopReason, type Tool, type ToolResult } from "./tool.ts";
import { writeTool } from "./write.ts";

/** For every tool but bash, whose calls carry their own. */
const TIME_LIMIT_MS = 120_000;

export interface ToolsetOptions {
  readonly workspace: Workspace;
  readonly launcher: Launcher;
  readonly env: Readonly<Record<string, string>>;
}

/** The six tools of `agent_toolset_20260401`, bound to one session's workspace for one activation. */
export class Toolset {
  readonly #tools: ReadonlyMap<string, Tool>;

  constructor(options: ToolsetOptions) {
    const { workspace } = options;
    const tools = [
      bashTool(options),
      readTool(workspace),
      writeTool(workspace),
      editTool(workspace),
      globTool(workspace),
      grepTool(options),
    ];
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  has(name: string): boolean {
    return this.#tools.has(name);
  }

  async run(name: string, input: unknown, signal: AbortSignal): Promise<ToolResult> {
    const tool = this.#tools.get(name);
    if (tool === undefined) return { text: `${name}: no such tool on this worker`, isError: true };
    if (name === "bash") return tool.run(input, signal);

    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(new StopReason(`timed out after ${TIME_LIMIT_MS} ms`)), TIME_LIMIT_MS);
    try {
      return await tool.run(input, AbortSignal.any([signal, limit.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    for (const tool of this.#tools.values()) tool.close();
  }
}
