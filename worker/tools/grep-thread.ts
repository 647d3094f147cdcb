import { Worker } from "node:worker_threads";
import { GrepOutput, TIME_LIMIT_MS } from "./grep-output.ts";
import type { GrepMessage, GrepRequest } from "./grep-walk.ts";
import { stopReason, ToolFailure } from "./tool.ts";

/**
 * Searches on a thread of its own: a pattern that backtracks for ever cannot be interrupted in any other way, and must
 * not stop the heartbeats.
 */
export async function searchWithoutRipgrep(pattern: string, root: string, signal: AbortSignal): Promise<string> {
  try {
    new RegExp(pattern);
  } catch (error) {
    throw new ToolFailure(`grep: invalid regex: ${(error as Error).message}`);
  }
  if (signal.aborted) throw new ToolFailure(`grep: ${stopReason(signal)}`);

  const request: GrepRequest = { pattern, root };
  const thread = new Worker(new URL("./grep-walk.ts", import.meta.url), { workerData: request, env: {} });
  const output = new GrepOutput();
  const { promise: ended, resolve: end } = Promise.withResolvers<"complete" | "timed_out" | "aborted" | "failed">();
  thread.on("message", (message: GrepMessage) => {
    if (!output.add(message.lines.map((line) => `${line}\n`).join("")) || message.last) end("complete");
  });
  thread.on("error", () => end("failed"));
  thread.on("exit", () => end("failed"));
  const timer = setTimeout(() => end("timed_out"), TIME_LIMIT_MS);
  const onAbort = () => end("aborted");
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    switch (await ended) {
      case "complete":
        return output.toString();
      case "timed_out":
        if (output.empty) throw new ToolFailure("grep: timed out after 60s");
        return output.cutShort();
      case "aborted":
        throw new ToolFailure(`grep: ${stopReason(signal)}`);
      case "failed":
        throw new ToolFailure("grep: the search failed");
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
    await thread.terminate();
  }
}
