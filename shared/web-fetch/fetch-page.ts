/**
 * Fetches one page. It speaks to addresses that a stranger chose, so it needs nothing but the network: what goes in and
 * comes out is JSON, and it can run in a process without database and secrets.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { z } from "zod";
import { type Connection, dial, type Network } from "./dial.ts";
import { allowsHost, DomainRule } from "./domain-rule.ts";
import { get, readBody } from "./exchange.ts";
import { decodeText, readMediaType } from "./media-type.ts";
import { PageError, PageErrorCode } from "./page-error.ts";
import { htmlText } from "./page-text.ts";
import { destinationOf, parsePageUrl } from "./page-url.ts";

export const PageRequest = z.strictObject({
  url: z.string(),
  /** Every one of them must let every host on the way through. */
  domains: z.array(DomainRule),
  /** The text is cut after this many characters (UTF-16 units). */
  max_characters: z.int().min(1),
});
export type PageRequest = z.infer<typeof PageRequest>;

/** What the record keeps of a fetch, whether it came to a page or not. */
const PageProvenance = z.object({
  requested_url: z.string(),
  /** Where the redirects led; the requested URL in its one spelling when there were none. */
  final_url: z.string(),
  /** The URLs that were left by a redirect, in order. */
  redirects: z.array(z.string()),
  /** The address that the final URL was asked at; null when nothing was dialled for it. */
  address: z.string().nullable(),
  status: z.int().nullable(),
  media_type: z.string().nullable(),
  /** Length and SHA-256 of the decompressed body as far as it was read; null when none was. */
  bytes: z.int().nullable(),
  sha256: z.string().nullable(),
  started_at: z.string(),
  duration_ms: z.number(),
});
type PageProvenance = z.infer<typeof PageProvenance>;

export const PageOutcome = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("page"),
    text: z.string(),
    /** The page goes on. */
    cut: z.boolean(),
    provenance: PageProvenance,
  }),
  z.object({
    kind: z.literal("error"),
    code: PageErrorCode,
    /** For the model: says nothing of addresses. */
    message: z.string(),
    provenance: PageProvenance,
  }),
]);
export type PageOutcome = z.infer<typeof PageOutcome>;

export interface PageLimits {
  /** Redirects that are followed. */
  readonly redirects: number;
  /** Bytes of a body after decompression; what comes after them is not read. */
  readonly bodyBytes: number;
  /** Longest silence of a connection. */
  readonly idleMs: number;
  /** All hops together. */
  readonly totalMs: number;
}

export const PAGE_LIMITS: PageLimits = {
  redirects: 5,
  bodyBytes: 2 * 1024 * 1024,
  idleMs: 10_000,
  totalMs: 30_000,
};

export interface PageFetchOptions {
  readonly network: Network;
  readonly limits?: PageLimits;
  readonly signal?: AbortSignal;
}

/** Fetches a page over http or https. Never rejects: what went wrong is the outcome. */
export async function fetchPage(request: PageRequest, options: PageFetchOptions): Promise<PageOutcome> {
  const { limits = PAGE_LIMITS } = options;
  const journey = new Journey(request.url);
  const idle = new AbortController();
  const signals = [AbortSignal.timeout(limits.totalMs), idle.signal, ...(options.signal ? [options.signal] : [])];
  const signal = AbortSignal.any(signals);
  try {
    const response = await follow(request, journey, { network: options.network, limits, signal, idle });
    return await readPage(request, journey, response, limits);
  } catch (cause) {
    const provenance = journey.provenance();
    const error = signal.aborted
      ? new PageError("timeout", "The page took too long.", { cause })
      : cause instanceof PageError
        ? cause
        : new PageError("unreadable", "The page could not be fetched.", { cause });
    return { kind: "error", code: error.code, message: error.message, provenance };
  } finally {
    journey.end();
  }
}

interface Trip {
  readonly network: Network;
  readonly limits: PageLimits;
  readonly signal: AbortSignal;
  readonly idle: AbortController;
}

/** Goes from redirect to redirect; each hop is checked as the first one was. The head of the last answer. */
async function follow(request: PageRequest, journey: Journey, trip: Trip): Promise<IncomingMessage> {
  let url = parsePageUrl(request.url);
  for (let redirects = 0; ; redirects += 1) {
    journey.arrive(url);
    if (!request.domains.every((rule) => allowsHost(rule, destinationOf(url).host))) {
      throw new PageError("url_not_allowed", "The URL's domain may not be fetched.");
    }
    const connection = await dial(url, trip.network, trip.signal);
    connection.socket.setTimeout(trip.limits.idleMs, () => trip.idle.abort());
    journey.connect(connection);
    const response = await get(url, connection, trip.signal);
    journey.status = response.statusCode ?? null;
    const { location } = response.headers;
    if (![301, 302, 303, 307, 308].includes(response.statusCode ?? 0) || location === undefined) {
      return response;
    }
    journey.leave(url);
    if (redirects === trip.limits.redirects) {
      throw new PageError("too_many_redirects", "The page was redirected too many times.");
    }
    url = parsePageUrl(location, url.href);
  }
}

async function readPage(
  request: PageRequest,
  journey: Journey,
  response: IncomingMessage,
  limits: PageLimits,
): Promise<PageOutcome> {
  const status = response.statusCode ?? 0;
  if (status !== 200 && status !== 203) {
    throw new PageError("http_error", `The server answered with status ${status}.`);
  }
  const type = readMediaType(response.headers["content-type"]);
  journey.mediaType = type.essence;
  const body = await readBody(response, limits.bodyBytes);
  journey.body = body.bytes;
  const decoded = decodeText(body.bytes, type);
  const whole = type.isHtml ? htmlText(decoded, journey.provenance().final_url) : { text: decoded, cut: false };
  const text = head(whole.text, request.max_characters);
  return {
    kind: "page",
    text,
    cut: body.cut || whole.cut || text.length < whole.text.length,
    provenance: journey.provenance(),
  };
}

/** The first characters; never half of a surrogate pair. */
function head(text: string, max: number): string {
  const end = /[\ud800-\udbff]/.test(text.charAt(max - 1)) ? max - 1 : max;
  return text.length <= max ? text : text.slice(0, end);
}

/** What is noted on the way. */
class Journey {
  status: number | null = null;
  mediaType: string | null = null;
  body: Buffer | null = null;
  readonly #requested: string;
  readonly #started = new Date();
  readonly #redirects: string[] = [];
  #url: string;
  #connection: Connection | null = null;

  constructor(requested: string) {
    this.#requested = requested;
    this.#url = requested;
  }

  arrive(url: URL): void {
    this.#url = url.href;
    this.status = null;
    this.#connection = null;
  }

  connect(connection: Connection): void {
    this.#connection = connection;
  }

  leave(url: URL): void {
    this.#redirects.push(url.href);
    this.end();
  }

  /** Nothing more is read from the last connection. */
  end(): void {
    this.#connection?.socket.destroy();
  }

  provenance(): PageProvenance {
    return {
      requested_url: this.#requested,
      final_url: this.#url,
      redirects: [...this.#redirects],
      address: this.#connection?.address ?? null,
      status: this.status,
      media_type: this.mediaType,
      bytes: this.body?.length ?? null,
      sha256: this.body === null ? null : createHash("sha256").update(this.body).digest("hex"),
      started_at: this.#started.toISOString(),
      duration_ms: Date.now() - this.#started.getTime(),
    };
  }
}
