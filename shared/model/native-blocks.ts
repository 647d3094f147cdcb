/** Reads the blocks of tools that the provider runs itself: which calls they are, and what clients may see of results. */
import type { Block } from "./content-blocks.ts";
import { jsonField } from "./json-text.ts";
import { asRecord } from "./usage.ts";

/** The call that a block of a server tool belongs to, by the provider's id; null for any other block. */
export function serverCallOf(block: Block): { readonly id: string; readonly half: "call" | "result" } | null {
  if (block.type === "server_tool_use") {
    return { id: block.id ?? "", half: "call" };
  }
  if (block.type.endsWith("_tool_result")) {
    const id = jsonField(block.raw, "tool_use_id");
    return id?.[0] === '"' ? { id: JSON.parse(id) as string, half: "result" } : null;
  }
  return null;
}

/** Ids of calls whose other half, the call or its result, is not among the blocks. */
export function halfServerCalls(blocks: readonly Block[]): string[] {
  const halves = new Set<string>();
  for (const block of blocks) {
    const call = serverCallOf(block);
    if (call !== null && !halves.delete(call.id)) {
      halves.add(call.id);
    }
  }
  return [...halves];
}

/** What a public event shows of a result: bounded text blocks. */
export interface PublicResult {
  /** JSON text of an array of text blocks. */
  readonly content: string;
  /** The tool itself failed (its error block is in the transcript); the request did not. */
  readonly isError: boolean;
}

const MAX_RESULTS = 20;
const MAX_LINE_CHARS = 500;
const MAX_EXCERPT_CHARS = 2000;

/**
 * The public projection of a result block: titles, addresses and the beginning of a document. Encrypted content, indexes
 * and whatever else only the provider can read stay in the transcript.
 */
export function publicResult(block: Block): PublicResult {
  const content: unknown = asRecord(JSON.parse(block.raw))["content"];
  if (Array.isArray(content)) {
    const found = content.map(asRecord).filter(({ type }) => type === "web_search_result");
    const texts = found.slice(0, MAX_RESULTS).map(({ title, url, page_age }) => lines(title, url, page_age));
    if (found.length > MAX_RESULTS) {
      texts.push(`[${found.length - MAX_RESULTS} more results]`);
    }
    return told(texts, "[No results]");
  }
  const result = asRecord(content);
  if (result["type"] === "web_fetch_result") {
    const document = asRecord(result["content"]);
    const head = lines(document["title"], result["url"], result["retrieved_at"]);
    return told([head, excerpt(asRecord(document["source"]))], "[No content]");
  }
  const code = result["error_code"];
  const isError = typeof result["type"] === "string" && result["type"].endsWith("_error");
  return { ...told([isError ? `Error: ${lines(code) || "unknown"}` : ""], "[No content]"), isError };
}

function told(texts: readonly string[], otherwise: string): PublicResult {
  const said = texts.filter((text) => text.trim() !== "");
  const blocks = (said.length === 0 ? [otherwise] : said).map((text) => ({ type: "text", text }));
  return { content: JSON.stringify(blocks), isError: false };
}

function lines(...values: readonly unknown[]): string {
  return values
    .filter((value) => typeof value === "string" && value !== "")
    .map((value) => cut(value as string, MAX_LINE_CHARS))
    .join("\n");
}

/** Text from its beginning; of anything else only what it is. */
function excerpt(source: Readonly<Record<string, unknown>>): string {
  const { type, media_type, data } = source;
  if (type === "text" && typeof data === "string") {
    return cut(data, MAX_EXCERPT_CHARS);
  }
  return typeof media_type === "string" ? `[${cut(media_type, MAX_LINE_CHARS)}]` : "";
}

function cut(text: string, max: number): string {
  if (text.length <= max) {
    return text;
  }
  // Never between the halves of a surrogate pair.
  const end = /[\ud800-\udbff]/.test(text.charAt(max - 1)) ? max - 1 : max;
  return `${text.slice(0, end)}…`;
}
