import { type Block, readBlocks } from "../model/content-blocks.ts";
import { serverCallOf } from "../model/native-blocks.ts";
import { pinnedProfile, type SessionRuntime } from "../permissions/runtime.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";

/** Output tokens that a request asks for. Long enough for a file, short enough for a Lambda's remaining time. */
const MAX_OUTPUT_TOKENS = 16_384;

/** Names what this file does to a transcript: a change of its output is a new version, and the old one stays readable. */
export const ADAPTER_VERSION = "messages/1";

/** Which entries a request holds: all of them. Compaction will be another policy. */
export const CONTEXT_POLICY_VERSION = "whole/1";

/** Bytes of a request for one token of its context: an estimate on the safe side for text in any language. */
const BYTES_PER_TOKEN = 3;

export function estimateTokens(requestBytes: number): number {
  return Math.ceil(requestBytes / BYTES_PER_TOKEN);
}

/** What the model is told about a call that has no result: whether it happened is not known. */
const NO_RESULT = "No result: the call was interrupted, and whether it took effect is unknown.";

const NO_OUTPUT = "(no output)";

/**
 * The body of a provider request, as JSON text. Transcript entries are spliced in as they are stored; nothing that a
 * provider sent is parsed or written again.
 *
 * What would make every later request fail is mended here, on read; the stored transcript is never rewritten:
 *
 * - a call without a result is given one (a provider refuses a `tool_use` that no `tool_result` follows);
 * - text blocks of nothing but white space are left out whole (models write them beside calls, and providers refuse to
 *   take them back: BerriAI/litellm#22979);
 * - half of a call of the provider's own tool, of a turn that is over, is left out whole: the other half will never come,
 *   and a call without its result is refused (in the turn that runs the next response brings it, after pause_turn);
 * - signed blocks of another model are left out whole: only their author may take them back, and an edited one fails for
 *   ever (anthropics/anthropic-sdk-python#1598);
 * - an empty answer becomes no message;
 * - of a message that the provider refused, images and documents are left out.
 */
export function buildRequest(runtime: SessionRuntime, transcript: readonly TranscriptEntry[]): string {
  const head: string[] = [`"model":${JSON.stringify(runtime.model)}`, `"max_tokens":${maxOutputTokens(runtime)}`];
  if (runtime.system !== null && runtime.system !== "") {
    head.push(`"system":${JSON.stringify(runtime.system)}`);
  }
  if (runtime.tools.length > 0) {
    head.push(`"tools":[${runtime.tools.map((tool) => tool.declaration).join(",")}]`);
  }
  return `{${head.join(",")},"messages":[${messages(runtime, transcript).join(",")}],"stream":true}`;
}

/** A small window keeps half of itself for the request; an endpoint refuses to promise more than its window holds. */
function maxOutputTokens(runtime: SessionRuntime): number {
  const window = pinnedProfile(runtime).context_window_tokens;
  return window === null ? MAX_OUTPUT_TOKENS : Math.min(MAX_OUTPUT_TOKENS, Math.floor(window / 2));
}

/** The messages with roles alternating, each tool call followed by its results. */
function messages(runtime: SessionRuntime, transcript: readonly TranscriptEntry[]): string[] {
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
  const lonely = lonelyHalves(transcript);
  for (const entry of transcript) {
    const content = blocksOf(entry, runtime, lonely);
    if (content.length === 0) {
      continue;
    }
    if (entry.role !== role) {
      close();
      role = entry.role;
    }
    if (entry.role === "user") {
      const missing = unanswered.filter((id) => !entry.toolUseIds.includes(id));
      // Results must come first in the message that follows the calls.
      const results = missing.map(missingResult);
      blocks.push(...(entry.toolUseIds.length > 0 ? [...content, ...results] : [...results, ...content]));
      unanswered = [];
    } else {
      blocks.push(...content);
      unanswered = [...unanswered, ...entry.toolUseIds];
    }
  }
  close();
  return merged;
}

/** Calls of the provider's own tools of which a turn that is over holds the call or the result, and not both. */
function lonelyHalves(transcript: readonly TranscriptEntry[]): ReadonlySet<string> {
  const running = transcript.at(-1)?.place.turn;
  const lonely = new Set<string>();
  for (const entry of transcript) {
    for (const id of entry.place.turn === running ? [] : entry.halfServerCalls) {
      if (!lonely.delete(id)) {
        lonely.add(id);
      }
    }
  }
  return lonely;
}

/** A text that holds nothing but white space, however it is escaped: a cheap look that spares most entries a parse. */
const BLANK_TEXT = /"text"\s*:\s*"(?:\s|\\[nrtf]|\\u0020|\\u00a0)*"/;

/** What of an entry goes into the request: the whole array as one splice, unless something must be left out. */
function blocksOf(entry: TranscriptEntry, runtime: SessionRuntime, lonely: ReadonlySet<string>): string[] {
  if (entry.refused) {
    return readBlocks(entry.content).flatMap((block) => (block.type === "text" ? block.raw : LEFT_OUT));
  }
  const foreign = entry.role === "assistant" && (entry.provider !== runtime.provider || entry.model !== runtime.model);
  const halved = entry.halfServerCalls.some((id) => lonely.has(id));
  if (foreign || halved || BLANK_TEXT.test(entry.content)) {
    const leftOut = (block: Block) =>
      (block.type === "text" && block.text?.trim() === "") ||
      (foreign && SIGNED_BLOCKS.has(block.type)) ||
      (halved && lonely.has(serverCallOf(block)?.id ?? ""));
    return readBlocks(entry.content).flatMap((block) => (leftOut(block) ? [] : block.raw));
  }
  const text = entry.content.slice(entry.content.indexOf("[") + 1, entry.content.lastIndexOf("]")).trim();
  return text === "" ? [] : [text];
}

/** Blocks that carry a signature of the model that wrote them. */
const SIGNED_BLOCKS = new Set(["thinking", "redacted_thinking"]);

const LEFT_OUT = JSON.stringify({
  type: "text",
  text: "[A file of this message was refused by the model provider and is left out.]",
});

function missingResult(toolUseId: string): string {
  return toolResultBlock({ toolUseId, content: JSON.stringify([{ type: "text", text: NO_RESULT }]), isError: true });
}

/**
 * A `tool_result` block of a provider request. `content` is JSON text of an array of blocks; an error without content,
 * or one of blank text, is refused by providers, so that both say that there is no output.
 */
export function toolResultBlock(result: {
  readonly toolUseId: string;
  readonly content: string;
  readonly isError: boolean;
}): string {
  const error = result.isError ? `,"is_error":true` : "";
  const blocks = readBlocks(result.content).filter((block) => block.type !== "text" || block.text?.trim() !== "");
  const content =
    blocks.length === 0
      ? JSON.stringify([{ type: "text", text: NO_OUTPUT }])
      : `[${blocks.map((block) => block.raw).join(",")}]`;
  return `{"type":"tool_result","tool_use_id":${JSON.stringify(result.toolUseId)},"content":${content}${error}}`;
}
