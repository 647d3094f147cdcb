import { stat } from "node:fs/promises";
import { z } from "zod";
import type { Environment } from "../sandbox/launcher.ts";
import type { Workspace } from "../workspace.ts";
import { fileFailure } from "./file-failure.ts";
import { searchWithoutRipgrep } from "./grep-thread.ts";
import { findRipgrep, searchWithRipgrep } from "./ripgrep.ts";
import { defineTool, optionalText, requiredText, type Tool } from "./tool.ts";

export interface GrepOptions {
  readonly workspace: Workspace;
  readonly env: Environment;
}

/** Searches with ripgrep when the host has it, else with a bounded walk of our own. */
export function grepTool({ workspace, env }: GrepOptions): Tool {
  return defineTool({
    name: "grep",
    input: z.object({ pattern: requiredText(), path: optionalText() }),
    run: async ({ pattern, path }, signal) => {
      const root = await existing(workspace, path || ".");
      const ripgrep = await findRipgrep(env["PATH"] ?? "", workspace.path);
      return ripgrep === null
        ? searchWithoutRipgrep(pattern, root, signal)
        : searchWithRipgrep({ env, program: ripgrep, cwd: workspace.path, pattern, root, signal });
    },
  });
}

async function existing(workspace: Workspace, given: string): Promise<string> {
  try {
    const path = await workspace.resolve(given);
    await stat(path);
    return path;
  } catch (error) {
    throw fileFailure("grep", error, given);
  }
}
