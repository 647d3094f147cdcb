import { z } from "zod";
import type { Environment, Sandbox } from "../sandbox/launcher.ts";
import { Shell } from "./shell.ts";
import { defineTool, optionalFlag, optionalText, stopReason, type Tool, ToolFailure } from "./tool.ts";

const DEFAULT_TIMEOUT_MS = 120_000;
/** The longest delay that a timer can hold. */
const MAX_TIMEOUT_MS = 2_147_483_647;
const TIMEOUT = "must be a positive whole number of milliseconds";

/** One persistent shell for the time of an activation. Calls must come one at a time. */
export function bashTool(sandbox: Sandbox, env: Environment): Tool {
  const open = () => {
    const opening = sandbox
      .launch({ program: "/bin/bash", args: ["--noprofile", "--norc"], env: { TERM: "dumb", ...env } })
      .then((started) => new Shell(started));
    // It may go unused, or be closed first.
    opening.catch(() => {});
    return opening;
  };
  // Opened before the first command asks for it: starting bash takes longer than most commands.
  let shell: Promise<Shell> | null = open();

  const discard = () => {
    void shell?.then((opened) => opened.close()).catch(() => {});
    shell = null;
  };
  const usable = async (): Promise<Shell> => {
    if (await shell?.then((opened) => opened.ended).catch(() => true)) discard();
    shell ??= open();
    try {
      return await shell;
    } catch {
      shell = null;
      throw new ToolFailure("bash: the session's sandbox could not be entered");
    }
  };

  return defineTool({
    name: "bash",
    input: z.object({
      command: optionalText(),
      restart: optionalFlag(),
      timeout_ms: z.int(TIMEOUT).min(1, TIMEOUT).max(MAX_TIMEOUT_MS, TIMEOUT).nullish(),
    }),
    run: async ({ command, restart, timeout_ms }, signal, idempotencyKey) => {
      if (restart) discard();
      if (!command) {
        if (restart) return "bash session restarted";
        throw new ToolFailure("bash: command is required");
      }
      if (command.includes("\0")) throw new ToolFailure("bash: command must not contain NUL characters");

      const opened = await usable();
      const timeoutMs = timeout_ms ?? DEFAULT_TIMEOUT_MS;
      const end = await opened.run({ command, idempotencyKey }, timeoutMs, signal);
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
