import { setTimeout } from "node:timers/promises";
import { comment, retryHint } from "../shared/live/sse.ts";
import type { Quiet } from "./quiet.ts";

/**
 * What stands before the app in a deployment that scales to zero: answers those who only wait, a worker's poll and a
 * stream that comes back, without the database while all is quiet. Everything else is activity, and goes to the app.
 *
 * A stream that comes for the first time is somebody who is there; one that comes back says where it stood
 * (`Last-Event-ID`), so that it misses nothing when it is sent on to the app.
 */

type Fetch = (request: Request) => Response | Promise<Response>;

const POLL = /^\/v1\/environments\/[^/]+\/work\/poll$/;
const STREAM = /^\/v1\/sessions\/.+\/stream$/;
/** Answered by the functions without the database. */
const NEITHER = /^\/(healthz|openapi\.json)?$/;
/** How often the marker is looked at, and how often a waiting stream is given a comment. */
const LOOK_MS = 2000;
const KEEP_ALIVE_MS = 10_000;
const RETRY_MS = 500;

export interface QuietFrontOptions {
  readonly quiet: Quiet;
  readonly streamLifeMs: number;
}

export function quietFront(fetch: Fetch, { quiet, streamLifeMs }: QuietFrontOptions): Fetch {
  return async (request) => {
    const url = new URL(request.url);
    const waits = waitOf(request, url);
    if (waits === null) {
      if (!NEITHER.test(url.pathname)) await quiet.note();
      const response = await fetch(request);
      return isStream(response) ? untilQuiet(response, quiet) : response;
    }
    if ((await quiet.isQuiet()) && (await quiet.knows(waits.secret, url.pathname))) {
      return waits.kind === "stream" ? held(quiet, streamLifeMs) : await polled(quiet, request, url, fetch);
    }
    const response = await fetch(request);
    if (response.status === 200) {
      await quiet.remember(waits.secret, url.pathname);
    }
    return isStream(response) ? untilQuiet(response, quiet) : response;
  };
}

function isStream(response: Response): boolean {
  return response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
}

function waitOf(request: Request, { pathname }: URL): { kind: "poll" | "stream"; secret: string } | null {
  const { headers, method } = request;
  const bearer = /^Bearer +(\S+)$/i.exec(headers.get("authorization") ?? "")?.[1];
  const secret = headers.get("x-api-key") ?? bearer;
  if (method !== "GET" || secret === undefined) {
    return null;
  }
  if (POLL.test(pathname)) {
    return { kind: "poll", secret };
  }
  return STREAM.test(pathname) && headers.has("last-event-id") ? { kind: "stream", secret } : null;
}

async function polled(quiet: Quiet, request: Request, url: URL, fetch: Fetch): Promise<Response> {
  const deadline = Date.now() + Math.min(Number(url.searchParams.get("block_ms")) || 0, 20_000);
  while (Date.now() < deadline) {
    await setTimeout(Math.min(LOOK_MS, deadline - Date.now()));
    if (!(await quiet.isQuiet())) {
      return fetch(request);
    }
  }
  return Response.json(null);
}

/** Open, silent but for its comments, until somebody is active or its life is over; then the client comes back. */
function held(quiet: Quiet, lifeMs: number): Response {
  const gone = new AbortController();
  async function* frames(): AsyncGenerator<Uint8Array> {
    const end = Date.now() + lifeMs;
    let spoken = 0;
    while (Date.now() < end && !gone.signal.aborted && (await quiet.isQuiet())) {
      if (Date.now() - spoken >= KEEP_ALIVE_MS) {
        spoken = Date.now();
        yield comment("quiet");
      }
      await setTimeout(LOOK_MS, undefined, { signal: gone.signal }).catch(() => {});
    }
    yield retryHint(RETRY_MS);
  }
  const source = frames();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await source.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => gone.abort(),
  });
  const headers = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache, no-transform" };
  return new Response(body, { headers });
}

/** The app's stream, which reads the database, ends when all is quiet; its client comes back, and is held. */
function untilQuiet(response: Response, quiet: Quiet): Response {
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return response;
  }
  let quieted = false;
  const timer = setInterval(async () => {
    if (await quiet.isQuiet().catch(() => false)) {
      quieted = true;
      await reader.cancel();
    }
  }, LOOK_MS);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await reader.read();
      if (!done) {
        controller.enqueue(value);
        return;
      }
      clearInterval(timer);
      if (quieted) controller.enqueue(retryHint(RETRY_MS));
      controller.close();
    },
    async cancel(reason) {
      clearInterval(timer);
      await reader.cancel(reason);
    },
  });
  return new Response(body, response);
}
