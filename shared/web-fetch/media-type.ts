import { MIMEType } from "node:util";
import { PageError } from "./page-error.ts";

/** Types besides text that are text all the same. */
const TEXTUAL = new Set([
  "application/ecmascript",
  "application/javascript",
  "application/json",
  "application/ld+json",
  "application/toml",
  "application/x-ndjson",
  "application/xhtml+xml",
  "application/xml",
  "application/yaml",
]);
const HTML = new Set(["text/html", "application/xhtml+xml"]);
/** How much of a page is looked through for what it says of its own encoding. */
const PRESCAN_BYTES = 1024;

export interface MediaType {
  /** Type and subtype in lower case: `text/html`. */
  readonly essence: string;
  readonly isHtml: boolean;
  /** The encoding that the header names; null for none. */
  readonly charset: string | null;
}

/**
 * Reads a Content-Type header.
 *
 * @throws PageError for what is no text, and for an answer that does not say what it is
 */
export function readMediaType(header: string | undefined): MediaType {
  let type: MIMEType;
  try {
    type = new MIMEType(header ?? "");
  } catch {
    throw new PageError("unsupported_media_type", "The server does not say what kind of content the URL has.");
  }
  const { essence } = type;
  if (type.type !== "text" && !TEXTUAL.has(essence) && !/\+(json|xml)$/.test(essence)) {
    throw new PageError("unsupported_media_type", `Content of the type ${essence.slice(0, 100)} cannot be read.`);
  }
  return { essence, isHtml: HTML.has(essence), charset: type.params.get("charset") };
}

/** The text of a body: by its byte order mark, the header, what the page says of itself, or else as UTF-8. */
export function decodeText(bytes: Buffer, type: MediaType): string {
  const start = bytes.subarray(0, PRESCAN_BYTES).toString("latin1");
  const own =
    /<\?xml[^>]{0,100}\bencoding=["']([\w.:-]{1,40})/i.exec(start) ??
    (type.isHtml ? /<meta[^>]{0,200}\bcharset=["']?([\w.:-]{1,40})/i.exec(start) : null);
  const label = byteOrderMark(bytes) ?? type.charset ?? own?.[1] ?? "utf-8";
  // PostgreSQL and models alike have no use for a NUL.
  return decoder(label).decode(bytes).replaceAll("\u0000", "\ufffd");
}

function byteOrderMark(bytes: Buffer): string | null {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? "utf-8" : null;
}

function decoder(label: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder("utf-8");
  }
}
