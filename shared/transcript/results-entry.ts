import { toolResultBlock } from "../context/build-request.ts";
import type { ToolStep } from "../journal/tool-steps.ts";
import type { EntryDraft } from "./transcript.ts";

/** The user entry that answers a round's calls with what the journal holds of them. */
export function resultsEntry(steps: readonly ToolStep[]): EntryDraft {
  const blocks = steps.map((step) =>
    toolResultBlock({
      toolUseId: step.providerToolUseId,
      content: step.result ?? "[]",
      isError: step.isError ?? false,
    }),
  );
  return { role: "user", content: `[${blocks.join(",")}]`, toolUseIds: steps.map((step) => step.providerToolUseId) };
}
