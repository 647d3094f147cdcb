import type { SessionRuntime } from "../permissions/runtime.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";

/** Output tokens that a request asks for. Long enough for a file, short enough for a Lambda's remaining time. */
const MAX_OUTPUT_TOKENS = 16_384;

/** What the model is told about a call that has no result: whether it happened is not known. */
const NO_RESULT = "No result: the call was interrupted, and whether it took effect is unknown.";

/**
 * The body of a provider request, as JSON text. Transcript entries are spliced in as they are stored; nothing that a
 * provider sent is parsed or written again.
 *
 * A call without a result would make every later request fail (the provider refuses a `tool_use` that no
 * `tool_result` follows), so a missing one is added here, on read; the stored transcript is never rewritten.
 */
export function buildRequest(runtime: SessionRuntime, transcript: readonly TranscriptEntry[]): string {
  const head: string[] = [`"model":${JSON.stringify(runtime.model)}`, `"max_tokens":${MAX_OUTPUT_TOKENS}`];
  if (runtime.system !== null && runtime.system !== "") {
    head.push(`"system":${JSON.stringify(runtime.system)}`);
  }
  if (runtime.tools.length > 0) {
    head.push(`"tools":[${runtime.tools.map((tool) => tool.declaration).join(",")}]`);
  }
  return `{${head.join(",")},"messages":[${messages(transcript).join(",")}],"stream":true}`;
}

/** The messages with roles alternating, each tool call followed by its results. */
function messages(transcript: readonly TranscriptEntry[]): string[] {
  const merged: string[] = [];
  let role: "user" | "assistant" | null = null;
  let blocks: string[] = [];
  let unanswered: readonly string[] = [];
  const close = () => {
    if (role !== null && blocks.length > 0) {
      merged.push(`{"role":"${role}","content":[${blocks.join(",")}]}`);
    }
    blocks = [];
  };
  for (const entry of transcript) {
    // A provider that answered nothing leaves an empty entry, which no provider would accept back.
    if (inner(entry.content).length === 0) {
      continue;
    }
    if (entry.role !== role) {
      close();
      role = entry.role;
    }
    if (entry.role === "user") {
      const missing = unanswered.filter((id) => !entry.toolUseIds.includes(id));
      // Results must come first in the message that follows the calls.
      if (unanswered.length > 0 && entry.toolUseIds.length > 0) {
        blocks.push(...inner(entry.content), ...missing.map(missingResult));
      } else {
        blocks.push(...missing.map(missingResult), ...inner(entry.content));
      }
      unanswered = [];
    } else {
      blocks.push(...inner(entry.content));
      unanswered = [...unanswered, ...entry.toolUseIds];
    }
  }
  close();
  return merged;
}

/** The blocks of a stored content array as one splice; an empty array gives none. */
function inner(content: string): string[] {
  const text = content.slice(content.indexOf("[") + 1, content.lastIndexOf("]")).trim();
  return text === "" ? [] : [text];
}

function missingResult(toolUseId: string): string {
  return toolResultBlock({ toolUseId, content: JSON.stringify([{ type: "text", text: NO_RESULT }]), isError: true });
}

/** A `tool_result` block of a provider request. `content` is JSON text of an array of blocks. */
export function toolResultBlock(result: {
  readonly toolUseId: string;
  readonly content: string;
  readonly isError: boolean;
}): string {
  const error = result.isError ? `,"is_error":true` : "";
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(result.toolUseId)},"content":${result.content}${error}}`;
}
