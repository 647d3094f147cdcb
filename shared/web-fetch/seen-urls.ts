import type { WebFetchSettings } from "../contract/tools.ts";
import { type Block, readBlocks } from "../model/content-blocks.ts";
import { serverCallOf } from "../model/native-blocks.ts";
import type { PinnedTool } from "../permissions/runtime.ts";
import type { TranscriptEntry } from "../transcript/transcript.ts";

/**
 * Which URLs may be fetched: those that have appeared in the conversation, so that a model that was talked into it cannot
 * carry anything out in an address of its own making.
 *
 * A URL has appeared when it stands, whole and as the model gives it, in
 *
 * - what the client wrote or attached (`user_input`),
 * - the result of a tool that the worker or the application ran (`client_tool_results`),
 * - the result of web_search, web_fetch or another tool that the provider or the server ran (`server_tool_results`),
 *   unless it is an error: we write those ourselves, and they may quote the model.
 *
 * `url_sources` of the agent takes sources away. What the model itself wrote (its text, the inputs of its calls) is no
 * source, and does not become one when a result quotes the call that it answers ("…: no such file"); nor is the agent's
 * system prompt, nor the result of a tool that the session does not have.
 */
export function hasAppeared(
  url: string,
  conversation: {
    readonly transcript: readonly Pick<TranscriptEntry, "role" | "content">[];
    readonly tools: readonly Pick<PinnedTool, "name" | "owner">[];
    readonly sources: WebFetchSettings["url_sources"];
  },
): boolean {
  const spellings = spellingsOf(url);
  const allowed = permission(conversation.sources ?? {});
  const owners = new Map(conversation.tools.map(({ name, owner }) => [name, owner] as const));
  const calls = new Map<string, Block>();
  for (const entry of conversation.transcript) {
    for (const block of readBlocks(entry.content)) {
      if (entry.role === "assistant" && block.id !== undefined && block.name !== undefined) {
        calls.set(block.id, block);
      }
      const source = sourceOf(block, entry.role, { owners, calls });
      if (source === null || !allowed(source) || ("call" in source && asksFor(source.call, spellings))) {
        continue;
      }
      if (textsOf(block).some((text) => spellings.some(standsIn(text)))) {
        return true;
      }
    }
  }
  return false;
}

/** Whether the call's own input holds the URL, as it is or as an error would quote it. */
function asksFor(call: Block, spellings: readonly string[]): boolean {
  return textsOf(call).some((text) => {
    const quoted = JSON.stringify(text);
    return spellings.some((url) => text.includes(url) || quoted.includes(url));
  });
}

type Source =
  | { readonly from: "user_input" }
  | { readonly from: "client_tool_results" | "server_tool_results"; readonly tool: string; readonly call: Block };

interface Known {
  readonly owners: ReadonlyMap<string, PinnedTool["owner"]>;
  /** By the provider's id. */
  readonly calls: ReadonlyMap<string, Block>;
}

function sourceOf(block: Block, role: TranscriptEntry["role"], { owners, calls }: Known): Source | null {
  if (role === "assistant") {
    const half = serverCallOf(block);
    const call = half?.half === "result" ? calls.get(half.id) : undefined;
    return call === undefined ? null : { from: "server_tool_results", tool: call.name ?? "", call };
  }
  if (block.type !== "tool_result") {
    return { from: "user_input" };
  }
  const { tool_use_id, is_error } = JSON.parse(block.raw) as { tool_use_id?: string; is_error?: boolean };
  const call = calls.get(tool_use_id ?? "");
  const tool = call?.name ?? "";
  if (call === undefined) {
    return null;
  }
  switch (owners.get(tool)) {
    case "client_self_hosted":
    case "client_custom":
      return { from: "client_tool_results", tool, call };
    case "platform_managed":
      return is_error ? null : { from: "server_tool_results", tool, call };
    default:
      return null;
  }
}

function permission(sources: NonNullable<WebFetchSettings["url_sources"]>): (source: Source) => boolean {
  return (source) => {
    const rule = sources[source.from];
    if (rule == null || source.from === "user_input") {
      return rule?.type !== "none";
    }
    const named = "tools" in rule && rule.tools.some(({ name }) => name === source.tool);
    switch (rule.type) {
      case "all":
        return true;
      case "none":
        return false;
      case "only":
        return named;
      case "except":
        return !named;
    }
  };
}

/** Every string in a block, at any depth. Written as a loop: results may be nested as deep as a body allows. */
function textsOf(block: Block): string[] {
  const texts: string[] = [];
  const open: unknown[] = [JSON.parse(block.raw)];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === "string") {
      texts.push(value);
    } else if (typeof value === "object" && value !== null) {
      open.push(...Object.values(value).filter((member) => member !== null));
    }
  }
  return texts;
}

/** The URL as it was given, and as it may be written otherwise: in its one spelling, and without an empty path. */
function spellingsOf(url: string): string[] {
  const spellings = new Set([url]);
  if (URL.canParse(url)) {
    const parsed = new URL(url);
    parsed.hash = "";
    spellings.add(parsed.href);
    if (parsed.pathname === "/" && parsed.search === "") {
      spellings.add(parsed.href.slice(0, -1));
    }
  }
  return [...spellings];
}

/** What may follow a URL in a text: its end, a delimiter, or punctuation before one of them. */
const END_OF_URL = /^[.,;:!?*_~']*(?:$|[\s<>"`)\]}|\\#])/;
const LONGEST_PUNCTUATION = 16;

function standsIn(text: string): (url: string) => boolean {
  return (url) => {
    for (let at = text.indexOf(url); at >= 0; at = text.indexOf(url, at + 1)) {
      const end = at + url.length;
      if (END_OF_URL.test(text.slice(end, end + LONGEST_PUNCTUATION))) {
        return true;
      }
    }
    return false;
  };
}
