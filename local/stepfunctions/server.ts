/**
 * AWS JSON 1.0 over HTTP on the loopback address: `POST /`, the action in X-Amz-Target.
 *
 * Other users of the machine reach the port too, so the access key id is this instance's secret. The signature is not
 * checked: whoever knows the key id is the process that made it up.
 */

import { randomUUID, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Log } from "../../shared/ports/log.ts";
import type { Action, Request } from "./actions.ts";
import { isJsonObject } from "./json.ts";
import { ServiceError } from "./service-error.ts";

const TARGET_PREFIX = "AWSStepFunctions.";
const CONTENT_TYPE = "application/x-amz-json-1.0";
/** "1 MB is the whole API request size." */
const MAXIMUM_REQUEST_BYTES = 1_048_576;
const CREDENTIAL = /^AWS4-HMAC-SHA256 Credential=([^/]+)\//;

export class ProtocolServer {
  readonly #server: Server;
  readonly #actions: ReadonlyMap<string, Action>;
  readonly #accessKeyId: Buffer;
  readonly #log: Log;
  #closing = false;

  constructor(actions: ReadonlyMap<string, Action>, accessKeyId: string, log: Log) {
    this.#actions = actions;
    this.#accessKeyId = Buffer.from(accessKeyId);
    this.#log = log;
    this.#server = createServer((request, response) => void this.#serve(request, response));
    // Clients keep their connections; one that the server closed at the wrong instant would cost a repeated request.
    this.#server.keepAliveTimeout = 0;
  }

  /** Resolves to the address. */
  async listen(): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  }

  /** Takes no more requests; those under way are answered. */
  async close(): Promise<void> {
    this.#closing = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.once("finish", () => {
      if (this.#closing) request.socket.end();
    });
    try {
      this.#authenticate(request);
      const action = this.#actionOf(request);
      send(response, 200, await action(await readBody(request)));
    } catch (error) {
      const known = error instanceof ServiceError ? error : null;
      if (!known) {
        this.#log.error("a request failed", { error: error instanceof Error ? error.name : typeof error });
      }
      const failure = known ?? new ServiceError("ServiceUnavailable", "The service is unavailable.", 503);
      response.setHeader("x-amzn-errortype", failure.type);
      // The rest of an unread body must not be taken for the next request.
      if (!request.complete) response.setHeader("connection", "close");
      send(response, failure.status, { __type: failure.type, message: failure.message });
    }
  }

  #authenticate(request: IncomingMessage): void {
    const given = Buffer.from(CREDENTIAL.exec(request.headers.authorization ?? "")?.[1] ?? "");
    if (given.length === this.#accessKeyId.length && timingSafeEqual(given, this.#accessKeyId)) return;
    throw new ServiceError(
      "UnrecognizedClientException",
      "The security token included in the request is invalid.",
      403,
    );
  }

  #actionOf(request: IncomingMessage): Action {
    const target = request.headers["x-amz-target"];
    const name =
      typeof target === "string" && target.startsWith(TARGET_PREFIX) ? target.slice(TARGET_PREFIX.length) : "";
    const action = request.method === "POST" && request.url === "/" ? this.#actions.get(name) : undefined;
    if (!action) throw new ServiceError("UnknownOperationException", "The requested operation is not known.");
    return action;
  }
}

async function readBody(request: IncomingMessage): Promise<Request> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAXIMUM_REQUEST_BYTES) {
      throw new ServiceError("RequestEntityTooLarge", `A request has at most ${MAXIMUM_REQUEST_BYTES} bytes.`, 413);
    }
    chunks.push(chunk);
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    body = null;
  }
  if (!isJsonObject(body)) throw new ServiceError("SerializationException", "The request body is not a JSON object.");
  return body;
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": CONTENT_TYPE,
    "content-length": Buffer.byteLength(text),
    "x-amzn-requestid": randomUUID(),
  });
  response.end(text);
}
