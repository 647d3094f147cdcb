import { z } from "zod";
import type { Launcher } from "../launcher.ts";
import type { Workspace } from "../workspace.ts";
import { Shell } from "./shell.ts";
import { defineTool, optionalFlag, optionalText, stopReason, type Tool, ToolFailure } from "./tool.ts";

const DEFAULT_TIMEOUT_MS = 120_000;
/** The longest delay that a timer can hold. */
const MAX_TIMEOUT_MS = 2_147_483_647;
const TIMEOUT = "must be a positive whole number of milliseconds";

export interface BashOptions {
  readonly workspace: Workspace;
  readonly launcher: Launcher;
  readonly env: Readonly<Record<string, string>>;
}

/** One persistent shell for the time of an activation. Calls must come one at a time. */
export function bashTool({ workspace, launcher, env }: BashOptions): Tool {
  const open = () => new Shell(launcher, { cwd: workspace.path, env: { TERM: "dumb", ...env } });
  // Opened before the first command asks for it: starting bash takes longer than most commands.
  let shell: Shell | null = open();

  const discard = () => {
    shell?.close();
    shell = null;
  };

  return defineTool({
    name: "bash",
    input: z.object({
      command: optionalText(),
      restart: optionalFlag(),
      timeout_ms: z.int(TIMEOUT).min(1, TIMEOUT).max(MAX_TIMEOUT_MS, TIMEOUT).nullish(),
    }),
    run: async ({ command, restart, timeout_ms }, signal) => {
      if (restart || shell?.ended) discard();
      if (!command) {
        if (restart) return "bash session restarted";
        throw new ToolFailure("bash: command is required");
      }
      if (command.includes("\0")) throw new ToolFailure("bash: command must not contain NUL characters");

      shell ??= open();
      const timeoutMs = timeout_ms ?? DEFAULT_TIMEOUT_MS;
      const end = await shell.run(command, timeoutMs, signal);
      if (end.type !== "done") discard();
      switch (end.type) {
        case "done":
          if (end.exitCode !== 0) throw new ToolFailure(end.output || `exit ${end.exitCode}`);
          return end.output;
        case "shell_ended":
          throw ended(`the shell ended (${end.why})`, end.output);
        case "timed_out":
          throw ended(`command timed out after ${timeoutMs} ms`, end.output);
        case "aborted":
          throw new ToolFailure(`bash: ${stopReason(signal)}`);
      }
    },
    close: discard,
  });
}

function ended(what: string, output: string): ToolFailure {
  return new ToolFailure(`bash: ${what}; the next command starts a new shell${output === "" ? "" : `\n${output}`}`);
}
