import type { WebTool } from "../contract/tools.ts";
import type { PinnedTool } from "../permissions/runtime.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";

/** One call that the control plane itself runs. `input` is JSON text exactly as the model wrote it. */
export interface ToolCall {
  readonly name: string;
  readonly input: string;
  /** Written to the journal before dispatch; an executor hands it to the remote side. */
  readonly idempotencyKey: string;
  readonly signal: AbortSignal;
  /** The session that the call belongs to, for executors that look at more than the input. */
  readonly session: {
    /** As pinned, the called tool among them. */
    readonly tools: readonly PinnedTool[];
    /** The thread's transcript with the response that made the call. */
    readTranscript(): Promise<readonly TranscriptEntry[]>;
  };
}

export interface ToolOutcome {
  /** JSON text of an array of result blocks. */
  readonly content: string;
  readonly isError: boolean;
  /** JSON text that the journal keeps of the call for the record; never shown to clients or the model. */
  readonly provenance?: string;
}

/**
 * Runs tools of owner `platform_managed` (remote MCP tools, managed fetch). A rejection means that nobody knows
 * whether the effect happened; an executor that knows it did not answers with an error outcome instead.
 */
export interface ToolExecutor {
  /** Web tools that it runs: sessions are given them as platform_managed, so that a call can be held back. */
  readonly manages?: readonly WebTool[];
  run(call: ToolCall): Promise<ToolOutcome>;
}

/** No server-side tool: every owner of a call is outside. */
export const noTools: ToolExecutor = {
  run: (call) =>
    Promise.resolve({
      content: JSON.stringify([{ type: "text", text: `${call.name} is not available here.` }]),
      isError: true,
    }),
};
