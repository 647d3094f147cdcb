import http, { type IncomingMessage } from "node:http";
import { pipeline } from "node:stream";
import { createBrotliDecompress, createGunzip } from "node:zlib";
import type { Connection } from "./dial.ts";
import { PageError } from "./page-error.ts";

/** All that a server is told. No cookie, no credential, no referrer: there is nothing that a redirect could carry away. */
const HEADERS = {
  "user-agent": "Mango-WebFetch/1.0",
  accept: "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.1",
  "accept-encoding": "gzip, br",
  connection: "close",
};
const MAX_HEADER_BYTES = 16 * 1024;

/** Sends one GET over the connection; the head of the answer, its body still to be read. */
export function get(url: URL, { socket }: Connection, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      method: "GET",
      path: `${url.pathname}${url.search}`,
      headers: { host: url.host, ...HEADERS },
      createConnection: () => socket,
      maxHeaderSize: MAX_HEADER_BYTES,
      signal,
    });
    request.once("response", (response) => {
      // An abort after the last read is nobody's error.
      response.on("error", () => {});
      resolve(response);
    });
    request.once("upgrade", () => reject(new PageError("unreadable", "The server answered with another protocol.")));
    request.on("error", (cause) => reject(new PageError("unreadable", "The server's answer broke off.", { cause })));
    request.end();
  });
}

/**
 * Reads a body as far as `maxBytes` after decompression, so that neither a long page nor a small one that inflates
 * without end takes more than that.
 *
 * @throws PageError
 */
export async function readBody(
  response: IncomingMessage,
  maxBytes: number,
): Promise<{ readonly bytes: Buffer; readonly cut: boolean }> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of decoded(response)) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length > maxBytes) {
        return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), cut: true };
      }
    }
  } catch (cause) {
    if (cause instanceof PageError) throw cause;
    throw new PageError("unreadable", "The server's answer broke off, or could not be decoded.", { cause });
  }
  return { bytes: Buffer.concat(chunks), cut: false };
}

function decoded(response: IncomingMessage): AsyncIterable<unknown> {
  const coding = (response.headers["content-encoding"] ?? "").trim().toLowerCase();
  switch (coding) {
    case "":
    case "identity":
      return response;
    case "gzip":
    case "x-gzip":
      return pipeline(response, createGunzip(), () => {});
    case "br":
      return pipeline(response, createBrotliDecompress(), () => {});
    default:
      throw new PageError("unreadable", "The server's answer is encoded in a way that was not asked for.");
  }
}
