import type { Environment } from "../sandbox/launcher.ts";
import type { Workspace } from "../workspace.ts";
import { editTool } from "./edit.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { readTool } from "./read.ts";
import type { Tool, ToolResult } from "./tool.ts";
import { writeTool } from "./write.ts";

export const FILE_TOOLS = ["read", "write", "edit", "glob", "grep"] as const;
export type FileToolName = (typeof FILE_TOOLS)[number];

/** The tools that work on files, bound to one session's folder, wherever that can be seen. */
export interface FileTools {
  /** Never rejects: whatever goes wrong is an error result. */
  run(name: FileToolName, input: unknown, signal: AbortSignal): Promise<ToolResult>;
  close(): void;
}

/** In this process. */
export function localFileTools(workspace: Workspace, env: Environment): FileTools {
  const tools: Readonly<Record<FileToolName, Tool>> = {
    read: readTool(workspace),
    write: writeTool(workspace),
    edit: editTool(workspace),
    glob: globTool(workspace),
    grep: grepTool({ workspace, env }),
  };
  return {
    run: (name, input, signal) => tools[name].run(input, signal),
    close() {
      for (const tool of Object.values(tools)) tool.close();
    },
  };
}
