/** A web server on loopback that records what it is asked, and the network on which it stands for a public one. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { isPublicAddress } from "../address-policy.ts";
import type { Network } from "../dial.ts";

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

export interface PageServer {
  readonly port: number;
  readonly seen: readonly SeenRequest[];
  close(): Promise<void>;
}

export type Serve = (request: IncomingMessage, response: ServerResponse) => void;

export async function startPageServer(
  serve: Serve,
  certificate?: { readonly key: string; readonly cert: string },
): Promise<PageServer> {
  const seen: SeenRequest[] = [];
  const record: Serve = (request, response) => {
    seen.push({ method: request.method ?? "", url: request.url ?? "", headers: request.headers });
    serve(request, response);
  };
  const server = certificate === undefined ? createServer(record) : createTlsServer(certificate, record);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

export const html = (body: string): Serve => {
  return (_request, response) => response.writeHead(200, { "content-type": "text/html" }).end(body);
};

/**
 * A network whose name server answers with these addresses, and on which the servers' own ports on 127.0.0.1 count as
 * public. Everything else is judged as in production.
 */
export function networkOf(
  servers: readonly Pick<PageServer, "port">[],
  names: Readonly<Record<string, readonly string[]>>,
  more: Partial<Network> = {},
): Network & { readonly asked: readonly string[] } {
  const asked: string[] = [];
  return {
    asked,
    resolve: async (host) => {
      asked.push(host);
      return names[host] ?? [];
    },
    mayDial: (address, port) =>
      (address === "127.0.0.1" && servers.some((server) => server.port === port)) || isPublicAddress(address),
    proxy: null,
    ...more,
  };
}
