/** A Messages endpoint on loopback for tests and benches: answers by the offline rules, or whatever a script says. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { offlineAnswer } from "../../shared/model/offline/answer.ts";
import { answerEvents, type FakeReply, failure, play, SSE_HEADERS, sse } from "./replies.ts";

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  /** The bytes as UTF-8. */
  readonly body: string;
}

/** What to answer the nth request (from 0); undefined answers by the offline rules. */
export type FakeScript =
  | readonly (FakeReply | undefined)[]
  | ((request: RecordedRequest, n: number) => FakeReply | undefined);

export interface FakeModelOptions {
  /** 0, the default, takes a free one. */
  readonly port?: number;
  /** When an array is used up, the offline rules answer. */
  readonly script?: FakeScript;
  /** For benches: each request gets this same text, from one prepared buffer. Requests are counted, not kept. */
  readonly fixed?: string;
}

export interface FakeModel {
  /** A base URL: without `/v1/messages`. */
  readonly url: string;
  readonly requests: readonly RecordedRequest[];
  /** Also those of `fixed`. */
  readonly count: number;
  /** TCP connections accepted so far. */
  readonly connections: number;
  close(): Promise<void>;
}

export async function startFakeModel(options: FakeModelOptions = {}): Promise<FakeModel> {
  const requests: RecordedRequest[] = [];
  let count = 0;
  let connections = 0;
  const fixed = options.fixed === undefined ? null : fixedBody(options.fixed);
  const server = createServer((request, response) => {
    const n = count++;
    if (fixed) {
      request.resume().once("end", () => {
        response.writeHead(200, { ...SSE_HEADERS, "content-length": fixed.length }).end(fixed);
      });
      return;
    }
    void record(request).then(
      (recorded) => {
        requests.push(recorded);
        return answer(recorded, n, options.script, response);
      },
      () => response.destroy(),
    );
  });
  server.on("connection", () => {
    connections += 1;
  });
  // Idle connections of a bench or a slow test stay open.
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(options.port ?? 0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    get count() {
      return count;
    },
    get connections() {
      return connections;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function record(request: IncomingMessage): Promise<RecordedRequest> {
  const bytes = Buffer.concat(await request.toArray());
  return {
    method: request.method ?? "",
    path: request.url ?? "",
    headers: request.headers,
    bytes,
    body: bytes.toString("utf8"),
  };
}

async function answer(
  request: RecordedRequest,
  n: number,
  script: FakeScript | undefined,
  response: ServerResponse,
): Promise<void> {
  const scripted = typeof script === "function" ? script(request, n) : script?.[n];
  await play(scripted ?? offlineReply(request, n), response);
}

function offlineReply(request: RecordedRequest, n: number): FakeReply {
  if (request.method !== "POST" || request.path !== "/v1/messages") {
    return failure(404, "not_found_error", `No ${request.method} ${request.path} here.`);
  }
  try {
    const body = answerEvents(offlineAnswer(request.body)).map(sse).join("");
    return { headers: { "request-id": `req_fake_${n}` }, steps: [{ bytes: body }] };
  } catch {
    return failure(400, "invalid_request_error", "The body is not a Messages request.");
  }
}

function fixedBody(text: string): Buffer {
  const usage = {
    inputTokens: 100,
    outputTokens: 10,
    cacheReadInputTokens: 0,
    cacheCreationInputTokens: 0,
    webSearchRequests: 0,
    webFetchRequests: 0,
  };
  const blocks = [{ type: "text", text } as const];
  const data = answerEvents({ id: "msg_fixed", model: "fixed", blocks, stopReason: "end_turn", usage });
  return Buffer.from(data.map(sse).join(""));
}
