import { glob, realpath, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { z } from "zod";
import { isWithin } from "../confinement.ts";
import type { Workspace } from "../workspace.ts";
import { fileFailure } from "./file-failure.ts";
import { defineTool, optionalText, requiredText, type Tool, ToolFailure } from "./tool.ts";

const MAX_RESULTS = 200;
const MAX_ENTRIES = 50_000;
const PRUNED = new Set([".git", "node_modules"]);

export function globTool(workspace: Workspace): Tool {
  return defineTool({
    name: "glob",
    input: z.object({ pattern: requiredText(), path: optionalText() }),
    run: async ({ pattern, path }, signal) => {
      if (isAbsolute(pattern)) {
        throw new ToolFailure("glob: absolute pattern not permitted; pass a relative pattern (and optionally path)");
      }
      if (pattern.split(/[\\/{},]/).includes("..")) {
        throw new ToolFailure('glob: ".." is not permitted in the pattern');
      }
      const root = await directory(workspace, path || ".");
      const found: { readonly path: string; readonly modified: number }[] = [];
      for await (const file of regularFiles(root, pattern, signal)) {
        // A pattern that names a link is followed through it, so where a match really is decides.
        const real = await realpath(file).catch(() => null);
        if (real === null || !isWithin(root, real)) continue;
        found.push({
          path: file,
          modified: await stat(file).then(
            (s) => s.mtimeMs,
            () => 0,
          ),
        });
      }
      if (found.length === 0) return "no matches";
      found.sort((a, b) => b.modified - a.modified);
      return found
        .slice(0, MAX_RESULTS)
        .map((match) => match.path)
        .join("\n");
    },
  });
}

async function directory(workspace: Workspace, given: string): Promise<string> {
  try {
    const path = await workspace.resolve(given);
    if (!(await stat(path)).isDirectory()) throw Object.assign(new Error("not a directory"), { code: "ENOTDIR" });
    return path;
  } catch (error) {
    throw fileFailure("glob", error, given);
  }
}

/** Node's own glob, within a budget: it asks `exclude` about every entry of the directories that it scans. */
async function* regularFiles(root: string, pattern: string, signal: AbortSignal): AsyncGenerator<string> {
  let walked = 0;
  const spent = () => signal.aborted || walked > MAX_ENTRIES;
  const exclude = (entry: { readonly name: string }) => {
    walked += 1;
    return PRUNED.has(entry.name) || spent();
  };
  for await (const entry of glob(pattern, { cwd: root, withFileTypes: true, exclude })) {
    walked += 1;
    if (spent()) return;
    if (entry.isFile()) yield join(entry.parentPath, entry.name);
  }
}
