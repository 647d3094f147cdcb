import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import pg from "pg";

/** A stand-in for RDS Proxy with IAM authentication: asks for a token, looks at it, and hands over a real connection. */
export interface RdsProxy {
  readonly port: number;
  /** The tokens that were shown, in order. */
  readonly tokens: readonly string[];
  /** The statements that came through, each with the name it was prepared under; empty for none. */
  readonly statements: readonly { readonly name: string; readonly text: string }[];
  /** Answers nothing more on the connections that it has, as if a firewall had forgotten them. */
  forget(): void;
  /** Cuts the connections that it has. */
  cut(): void;
  close(): Promise<void>;
}

export interface RdsProxyOptions {
  /**
   * TLS is required, as it is on AWS. Who comes by the name `localhost` reaches the proxy; who comes by the address
   * 127.0.0.1 reaches the cluster behind it, which asks for a password itself.
   */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** Each connection has the rights of the role that its token names; otherwise those of the connection string. */
  readonly asTokensRole?: boolean;
}

interface Heard {
  readonly tokens: string[];
  readonly statements: { readonly name: string; readonly text: string }[];
}

/** A password of the wire protocol's, in plain text. */
const ASK_PASSWORD = message("R", Buffer.from([0, 0, 0, 3]));
const WELCOME = Buffer.concat([message("R", Buffer.from([0, 0, 0, 0])), message("Z", Buffer.from("I"))]);
const WANTS_TLS = 80_877_103;

export async function startRdsProxy(connectionString: string, options: RdsProxyOptions = {}): Promise<RdsProxy> {
  const heard: Heard = { tokens: [], statements: [] };
  const sockets = new Set<Socket>();
  const admitted = async (socket: Socket) => {
    if (options.tls === undefined) {
      return admit(socket, await first(socket), connectionString, options, heard);
    }
    const secure = await encrypted(socket, options.tls);
    sockets.add(secure.on("error", () => {}));
    const startup = await first(secure);
    return secure.servername
      ? admit(secure, startup, connectionString, options, heard)
      : passOn(secure, startup, connectionString);
  };
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    admitted(socket).catch(() => socket.destroy());
  });
  const cut = () => {
    for (const socket of sockets) {
      socket.destroy();
    }
    sockets.clear();
  };
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    ...heard,
    forget() {
      for (const socket of sockets) {
        socket.unpipe().removeAllListeners("data").resume();
      }
    },
    cut,
    async close() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

async function first(socket: Socket): Promise<Buffer> {
  const [data] = (await once(socket, "data")) as [Buffer];
  return data;
}

async function encrypted(socket: Socket, tls: { readonly key: string; readonly cert: string }): Promise<TLSSocket> {
  if ((await first(socket)).readInt32BE(4) !== WANTS_TLS) {
    throw new Error("Only TLS is spoken here.");
  }
  socket.write("S");
  const secure = new TLSSocket(socket, { isServer: true, ...tls });
  await once(secure, "secure");
  return secure;
}

async function admit(
  socket: Socket,
  startup: Buffer,
  connectionString: string,
  options: RdsProxyOptions,
  heard: Heard,
): Promise<void> {
  const fields = startup.subarray(8).toString().split("\0");
  const user = fields[fields.indexOf("user") + 1] ?? "";
  socket.write(ASK_PASSWORD);
  const token = (await first(socket)).subarray(5, -1).toString();
  if (!token.includes("X-Amz-Signature=") || new URL(`https://${token}`).searchParams.get("DBUser") !== user) {
    socket.end(refusal(user));
    return;
  }
  heard.tokens.push(token);
  const client = new pg.Client({ connectionString });
  client.on("error", () => {});
  await client.connect();
  if (options.asTokensRole) {
    await client.query(`set session authorization ${pg.escapeIdentifier(user)}`);
  }
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.removeAllListeners("data");
  socket.write(WELCOME);
  listen(socket, heard);
  socket.pipe(stream).pipe(socket);
  socket.on("close", () => stream.destroy());
}

/** Reads the client's messages: `Q` is a statement, `P` prepares one under a name, then its text. */
function listen(socket: Socket, { statements }: Heard): void {
  let rest = Buffer.alloc(0);
  socket.on("data", (data: Buffer) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const end = rest.readInt32BE(1) + 1;
      const [first = "", second = ""] = rest.subarray(5, end).toString().split("\0");
      const type = String.fromCharCode(rest[0] ?? 0);
      if (type === "Q") statements.push({ name: "", text: first });
      if (type === "P") statements.push({ name: first, text: second });
      rest = rest.subarray(end);
    }
  });
}

async function passOn(socket: Socket, startup: Buffer, connectionString: string): Promise<void> {
  const { hostname, port } = new URL(connectionString);
  const cluster = connect(Number(port), hostname);
  cluster.on("error", () => socket.destroy());
  socket.on("close", () => cluster.destroy());
  await once(cluster, "connect");
  cluster.write(startup);
  socket.pipe(cluster).pipe(socket);
}

/** What RDS says to a password, or another's token, of a role that has to show a token of its own. */
function refusal(user: string): Buffer {
  const fields = ["SFATAL", "VFATAL", "C28000", `MPAM authentication failed for user "${user}"`];
  return message("E", Buffer.from(`${fields.join("\0")}\0\0`));
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
