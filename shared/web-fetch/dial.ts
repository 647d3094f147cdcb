import { lookup } from "node:dns/promises";
import http from "node:http";
import https from "node:https";
import net, { type LookupFunction, type Socket } from "node:net";
import tls from "node:tls";
import { canonicalAddress, isPublicAddress } from "./address-policy.ts";
import { PageError } from "./page-error.ts";
import { destinationOf } from "./page-url.ts";

/** The network as a fetch sees it. Production has one, `publicNetwork`; tests bring names and addresses of their own. */
export interface Network {
  /** All addresses of a host name, asked for once a hop. */
  resolve(host: string): Promise<readonly string[]>;
  /** Whether a connection to the address and port may be made. */
  mayDial(address: string, port: number): boolean;
  /** An HTTP proxy through which every connection is tunnelled; null: none. */
  readonly proxy: URL | null;
  /** Certificates that are trusted in place of the usual ones. */
  readonly ca?: string;
}

/** The web's own ports: others are those of services that were never meant to be spoken to by a page's link. */
const WEB_PORTS = new Set([80, 443, 8080, 8443]);

/** The public internet, and nothing else. */
export function publicNetwork(options: { readonly proxy: URL | null }): Network {
  return {
    resolve: async (host) => (await lookup(host, { all: true })).map(({ address }) => address),
    mayDial: (address, port) => WEB_PORTS.has(port) && isPublicAddress(address),
    proxy: options.proxy,
  };
}

export interface Connection {
  readonly socket: Socket;
  /** The address that was dialled, or that the proxy was told to dial. */
  readonly address: string;
}

/**
 * Connects to a URL's host: the name is resolved once, each of its addresses must be allowed, and only those are dialled,
 * so that an answer of the name server that comes later changes nothing. With https the certificate must be the host's.
 *
 * Through a proxy the same holds: it is told the checked address, never the name.
 *
 * @throws PageError
 */
export async function dial(url: URL, network: Network, signal: AbortSignal): Promise<Connection> {
  const { host, port } = destinationOf(url);
  const addresses = net.isIP(host) === 0 ? await resolved(network, host, signal) : [host];
  if (addresses.length === 0) {
    throw new PageError("unreachable", "The host of the URL has no address.");
  }
  // One bad address among good ones is not skipped: the name is then in hands that point it inwards.
  if (!addresses.every((address) => network.mayDial(address, port))) {
    throw new PageError("address_not_allowed", "The URL does not lead to a web server on the public internet.");
  }
  const connection =
    network.proxy === null
      ? await direct(host, port, addresses, signal)
      : await tunnelled(network.proxy, forProxy(addresses), port, signal);
  if (!addresses.map(canonicalAddress).includes(canonicalAddress(connection.address))) {
    connection.socket.destroy();
    throw new PageError(
      "address_not_allowed",
      "The connection leads to another address than the one that was checked.",
    );
  }
  return url.protocol === "https:"
    ? { ...connection, socket: await secured(connection.socket, { host, ca: network.ca }, signal) }
    : connection;
}

async function resolved(network: Network, host: string, signal: AbortSignal): Promise<readonly string[]> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([network.resolve(host), aborted.promise]);
  } catch (cause) {
    throw new PageError("unreachable", "The host of the URL cannot be resolved.", { cause });
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

async function direct(
  host: string,
  port: number,
  addresses: readonly string[],
  signal: AbortSignal,
): Promise<Connection> {
  const checked = addresses.map((address) => ({ address, family: net.isIP(address) }));
  const pinned: LookupFunction = (_host, options, callback) => {
    const [first] = checked;
    if (options.all || first === undefined) callback(null, checked);
    else callback(null, first.address, first.family);
  };
  // Tries the addresses in turn, those of the other family included.
  const socket = net.connect({ host, port, lookup: pinned, autoSelectFamily: true, signal });
  await connected(socket, "connect");
  return { socket, address: socket.remoteAddress ?? "" };
}

/** One address: what the proxy's own network reaches is not known, and every network reaches those of IPv4. */
function forProxy(addresses: readonly string[]): string {
  return addresses.find((address) => net.isIPv4(address)) ?? addresses[0] ?? "";
}

function tunnelled(proxy: URL, address: string, port: number, signal: AbortSignal): Promise<Connection> {
  const target = `${net.isIPv6(address) ? `[${address}]` : address}:${port}`;
  const credentials = decodeURIComponent(`${proxy.username}:${proxy.password}`);
  const request = (proxy.protocol === "https:" ? https : http).request({
    ...destinationOf(proxy),
    method: "CONNECT",
    path: target,
    agent: false,
    signal,
    headers: {
      host: target,
      ...(credentials !== ":" && { "proxy-authorization": `Basic ${Buffer.from(credentials).toString("base64")}` }),
    },
  });
  return new Promise((resolve, reject) => {
    const refuse = (cause?: unknown) =>
      reject(new PageError("unreachable", "The proxy did not make a connection to the host of the URL.", { cause }));
    request.once("connect", (response, socket) => {
      // As in `connected`: nobody else listens between this request and the next.
      socket.on("error", () => {});
      if (response.statusCode === 200) {
        resolve({ socket, address });
      } else {
        socket.destroy();
        refuse();
      }
    });
    request.once("response", (response) => {
      response.destroy();
      refuse();
    });
    request.on("error", refuse);
    request.end();
  });
}

async function secured(
  socket: Socket,
  { host, ca }: { readonly host: string; readonly ca: string | undefined },
  signal: AbortSignal,
): Promise<Socket> {
  const secure = tls.connect({
    socket,
    host,
    // An address has no server name; its certificate is checked against `host` all the same.
    servername: net.isIP(host) === 0 ? host : "",
    ALPNProtocols: ["http/1.1"],
    ...(ca !== undefined && { ca }),
    rejectUnauthorized: true,
  });
  const abort = () => secure.destroy(signal.reason as Error);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await connected(secure, "secureConnect");
    return secure;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function connected(socket: Socket, event: "connect" | "secureConnect"): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve());
    socket.once("close", () => reject(new PageError("unreachable", "The host of the URL closed the connection.")));
    // Stays: an error that comes when nobody waits any more must not end the process.
    socket.on("error", (cause) => {
      reject(new PageError("unreachable", "No connection to the host of the URL could be made.", { cause }));
    });
  });
}
