/** API Gateway: the template's REST API over HTTP, buffered and streamed, its own answers included. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Assembly, Existing, Resource } from "./assembly.ts";
import type { LambdaService } from "./lambda-service.ts";

const HEAD_END = Buffer.alloc(8);

interface Route {
  readonly method: string;
  /** Pieces between slashes: text, `{name}`, or `{proxy+}` for all the rest. */
  readonly path: readonly string[];
  readonly functionArn: string;
  readonly streamed: boolean;
}

interface Head {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What Lambda takes and gives in a call that waits for its answer. */
const LAMBDA_BYTES = 6 * 1024 * 1024;

export class RestApi {
  readonly #routes: readonly Route[];
  readonly #answers: readonly Resource[];
  readonly #lambda: LambdaService;
  readonly #server: Server;

  constructor(assembly: Assembly, existing: Existing, lambda: LambdaService) {
    this.#lambda = lambda;
    this.#routes = routes(assembly, existing);
    this.#answers = assembly.ofType("AWS::ApiGateway::GatewayResponse");
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID();
    const url = new URL(request.url ?? "/", "http://localhost");
    const route = this.#route(request.method ?? "GET", url.pathname.split("/").slice(1));
    if (route === undefined) {
      return this.#answer(response, "MISSING_AUTHENTICATION_TOKEN", requestId);
    }
    const event = await proxyEvent(request, url, route, requestId);
    if (Buffer.byteLength(JSON.stringify(event)) > LAMBDA_BYTES) {
      return this.#answer(response, "DEFAULT_5XX", requestId);
    }
    const outcome = await this.#lambda.invoke(route.functionArn, event);
    if (outcome.kind === "error") {
      return this.#answer(response, "DEFAULT_5XX", requestId);
    }
    response.once("close", () => outcome.body.destroy());
    if (route.streamed) {
      return stream(outcome.body, response);
    }
    const bytes = Buffer.concat((await outcome.body.toArray()) as Buffer[]);
    if (bytes.length > LAMBDA_BYTES) {
      return this.#answer(response, "DEFAULT_5XX", requestId);
    }
    const answer = JSON.parse(bytes.toString()) as Head & {
      readonly body: string;
      readonly isBase64Encoded?: boolean;
    };
    response.writeHead(answer.statusCode, answer.headers);
    response.end(Buffer.from(answer.body, answer.isBase64Encoded ? "base64" : "utf8"));
  }

  /** The most specific one: text before a name before the rest, and a method of its own before ANY. */
  #route(method: string, asked: readonly string[]): Route | undefined {
    const rank = (piece: string | undefined) =>
      piece === undefined || piece.endsWith("+}") ? 2 : piece.startsWith("{") ? 1 : 0;
    const matching = this.#routes.filter(
      ({ path }) =>
        path.every((piece, at) => (piece.startsWith("{") ? (asked[at] ?? "") !== "" : piece === asked[at])) &&
        (path.length === asked.length || path.at(-1)?.endsWith("+}")),
    );
    const best = matching.toSorted((a, b) => {
      const differing = asked.findIndex((_, at) => rank(a.path[at]) !== rank(b.path[at]));
      return rank(a.path[differing]) - rank(b.path[differing]);
    })[0];
    // Of the path that was chosen no other method falls through to another path.
    const same = matching.filter(({ path }) => path.join("/") === best?.path.join("/"));
    return same.find((route) => route.method === method) ?? same.find((route) => route.method === "ANY");
  }

  #answer(response: ServerResponse, type: string, requestId: string): void {
    const answer = this.#answers.find(({ Properties }) => Properties.ResponseType === type)?.Properties;
    const headers = Object.fromEntries(
      Object.entries<string>(answer.ResponseParameters).map(([name, value]) => [
        name.replace("gatewayresponse.header.", ""),
        value === "context.requestId" ? requestId : value.replaceAll("'", ""),
      ]),
    );
    const template: string = answer.ResponseTemplates["application/json"];
    response.writeHead(Number(answer.StatusCode ?? 500), { ...headers, "content-type": "application/json" });
    response.end(
      template
        .replace("$context.requestId", requestId)
        .replace("$context.error.messageString", '"Internal server error"'),
    );
  }
}

function routes(assembly: Assembly, existing: Existing): Route[] {
  const byId = new Map(assembly.ofType("AWS::ApiGateway::Resource").map((resource) => [resource.id, resource]));
  const pathOf = (id: string | undefined): string[] => {
    const resource = id === undefined ? undefined : byId.get(id);
    return resource === undefined
      ? []
      : [...pathOf(resource.Properties.ParentId.Ref), resource.Properties.PathPart as string];
  };
  return assembly.ofType("AWS::ApiGateway::Method").map(({ Properties: { HttpMethod, ResourceId, Integration } }) => {
    const uri = assembly.resolve(Integration.Uri, existing) as string;
    const path = pathOf(ResourceId.Ref);
    return {
      method: HttpMethod,
      // The root is one empty piece, as in a split URL.
      path: path.length === 0 ? [""] : path,
      functionArn: /functions\/(arn:[^/]+)\//.exec(uri)?.[1] ?? "",
      streamed: Integration.ResponseTransferMode === "STREAM" && uri.endsWith("/response-streaming-invocations"),
    };
  });
}

async function proxyEvent(request: IncomingMessage, url: URL, route: Route, requestId: string): Promise<object> {
  const body = Buffer.concat((await request.toArray()) as Buffer[]);
  const many = <Value>(entries: Iterable<[string, Value]>) => {
    const grouped = Map.groupBy(entries, ([name]) => name);
    return Object.fromEntries([...grouped].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]));
  };
  const names = request.rawHeaders.filter((_, at) => at % 2 === 0);
  const headers = names.map((name, at): [string, string] => [name, request.rawHeaders[at * 2 + 1] ?? ""]);
  return {
    resource: `/${route.path.join("/")}`,
    path: url.pathname,
    httpMethod: request.method,
    headers: Object.fromEntries(headers),
    multiValueHeaders: many(headers),
    queryStringParameters: Object.fromEntries(url.searchParams),
    multiValueQueryStringParameters: many(url.searchParams),
    pathParameters: null,
    stageVariables: null,
    requestContext: { requestId, domainName: "localhost", stage: "mango", identity: { sourceIp: "127.0.0.1" } },
    body: body.length === 0 ? null : body.toString("utf8"),
    isBase64Encoded: false,
  };
}

async function stream(body: Readable, response: ServerResponse): Promise<void> {
  const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let start = Buffer.alloc(0);
  while (!start.includes(HEAD_END)) {
    const { value, done } = await chunks.next();
    if (done) throw new Error("The streamed answer ended before its head.");
    start = Buffer.concat([start, value]);
  }
  const end = start.indexOf(HEAD_END);
  const { statusCode, headers } = JSON.parse(start.subarray(0, end).toString()) as Head;
  response.writeHead(statusCode, headers);
  response.write(start.subarray(end + HEAD_END.length));
  await pipeline({ [Symbol.asyncIterator]: () => chunks }, response).catch(() => response.destroy());
}
