import { setTimeout } from "node:timers/promises";
import { secretDigest } from "../shared/contract/ids.ts";
import { comment, retryHint } from "../shared/live/sse.ts";
import type { StreamPlaces } from "../shared/live/stream-places.ts";
import type { Quiet } from "./quiet.ts";
import { untilQuiet } from "./until-quiet.ts";

/**
 * What stands before the app in a deployment that scales to zero: answers those who only wait, a worker's poll and a
 * stream that comes back, without the database while all is quiet and it has nothing for them. Everything else is
 * activity, and goes to the app.
 *
 * A stream that comes for the first time is somebody who is there; one that comes back says where it stood
 * (`Last-Event-ID`), so that it misses nothing when it is sent on to the app. Nor does it when all has become quiet
 * meanwhile: one that stands elsewhere than at the end goes to the app first. A poll goes to the app while work is
 * queued in its environment: that work waits for a worker, and only its poll wakes the database for it.
 */

type Fetch = (request: Request) => Response | Promise<Response>;

const POLL = /^\/v1\/environments\/([^/]+)\/work\/poll$/;
const STREAM = /^\/v1\/sessions\/.+\/stream$/;
const POSITION = /^\d{1,15}$/;
/** Answered by the functions without the database. */
const NEITHER = /^\/(healthz|openapi\.json)?$/;
/** How often the marker is looked at, and how often a waiting stream is given a comment. */
const LOOK_MS = 2000;
const KEEP_ALIVE_MS = 10_000;
const RETRY_MS = 500;

export interface QuietFrontOptions {
  readonly quiet: Quiet;
  /** A stream that is held keeps a Lambda like any other. */
  readonly streamPlaces: StreamPlaces;
  readonly streamLifeMs: number;
  /** Only for tests: how often the marker is looked at. */
  readonly lookMs?: number;
}

export function quietFront(fetch: Fetch, options: QuietFrontOptions): Fetch {
  const { quiet, streamPlaces, streamLifeMs, lookMs = LOOK_MS } = options;
  return async (request) => {
    const url = new URL(request.url);
    const asked = askedBy(request, url);
    if (asked.kind === "poll" && (await quiet.isQuiet()) && (await pollsInVain(quiet, asked, url.pathname))) {
      return polled(quiet, request, url, { fetch, lookMs });
    }
    if (asked.kind === "return" && (await quiet.isQuiet())) {
      if (await quiet.hasShown(asked.secret, url.pathname, asked.position)) {
        // Only the database knows the key's id.
        const keyId = secretDigest(asked.secret).toString("hex");
        const release = await streamPlaces.take({ keyId, sessionId: url.pathname });
        return held(quiet, { lifeMs: streamLifeMs, lookMs, onEnd: () => void release() });
      }
    }
    if (asked.kind === "other" && !NEITHER.test(url.pathname)) {
      await quiet.note();
    }
    const response = await fetch(request);
    if (asked.kind === "poll" && response.status === 200) {
      await quiet.remember(asked.secret, url.pathname);
    }
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
      return response;
    }
    return untilQuiet(response, {
      isQuiet: () => quiet.isQuiet(),
      position: asked.kind === "return" ? asked.position : null,
      onShown: (position) => quiet.rememberShown(asked.secret, url.pathname, position),
      hint: retryHint(RETRY_MS),
      lookMs,
    });
  };
}

type Asked = { readonly secret: string } & (
  | { readonly kind: "poll"; readonly environmentId: string }
  | { readonly kind: "return"; readonly position: string }
  | { readonly kind: "other" }
);

function askedBy({ headers, method }: Request, { pathname }: URL): Asked {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1];
  const secret = headers.get("x-api-key") ?? bearer;
  if (method !== "GET" || secret === undefined) {
    return { kind: "other", secret: "" };
  }
  const environmentId = POLL.exec(pathname)?.[1];
  if (environmentId !== undefined) {
    return { kind: "poll", secret, environmentId };
  }
  const position = headers.get("last-event-id") ?? "";
  return STREAM.test(pathname) && POSITION.test(position)
    ? { kind: "return", secret, position }
    : { kind: "other", secret };
}

async function pollsInVain(quiet: Quiet, asked: Asked & { kind: "poll" }, place: string): Promise<boolean> {
  const [known, queued] = await Promise.all([quiet.knows(asked.secret, place), quiet.queued()]);
  return known && queued !== null && !queued.includes(asked.environmentId);
}

async function polled(
  quiet: Quiet,
  request: Request,
  url: URL,
  { fetch, lookMs }: { readonly fetch: Fetch; readonly lookMs: number },
): Promise<Response> {
  const deadline = Date.now() + Math.min(Number(url.searchParams.get("block_ms")) || 0, 20_000);
  while (Date.now() < deadline) {
    await setTimeout(Math.min(lookMs, deadline - Date.now()));
    if (!(await quiet.isQuiet())) {
      // Only what is left of the wait: API Gateway gives up on an answer after 29 s.
      url.searchParams.set("block_ms", String(Math.max(0, deadline - Date.now())));
      return fetch(new Request(url, { headers: request.headers, signal: request.signal }));
    }
  }
  return Response.json(null);
}

/** Open, silent but for its comments, until somebody is active or its life is over; then the client comes back. */
function held(
  quiet: Quiet,
  { lifeMs, lookMs, onEnd }: { readonly lifeMs: number; readonly lookMs: number; readonly onEnd: () => void },
): Response {
  const gone = new AbortController();
  async function* frames(): AsyncGenerator<Uint8Array> {
    const end = Date.now() + lifeMs;
    // The first byte comes at once, however short the stream's life.
    yield comment("quiet");
    let spoken = Date.now();
    while (Date.now() < end && !gone.signal.aborted && (await quiet.isQuiet())) {
      if (Date.now() - spoken >= KEEP_ALIVE_MS) {
        spoken = Date.now();
        yield comment("quiet");
      }
      await setTimeout(lookMs, undefined, { signal: gone.signal }).catch(() => {});
    }
    yield retryHint(RETRY_MS);
  }
  const source = frames();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await source.next().catch((error: unknown) => {
        onEnd();
        throw error;
      });
      if (!done) {
        controller.enqueue(value);
        return;
      }
      onEnd();
      controller.close();
    },
    cancel() {
      gone.abort();
      onEnd();
    },
  });
  const headers = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache, no-transform" };
  return new Response(body, { headers });
}
