import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import pg from "pg";

/** A stand-in for RDS Proxy with IAM authentication: asks for a token, looks at it, and hands over a real connection. */
export interface RdsProxy {
  readonly port: number;
  /** The tokens that were shown, in order. */
  readonly tokens: readonly string[];
  /** Answers nothing more on the connections that it has, as if a firewall had forgotten them. */
  forget(): void;
  /** Cuts the connections that it has. */
  cut(): void;
  close(): Promise<void>;
}

/** A password of the wire protocol's, in plain text. */
const ASK_PASSWORD = message("R", Buffer.from([0, 0, 0, 3]));
const WELCOME = Buffer.concat([message("R", Buffer.from([0, 0, 0, 0])), message("Z", Buffer.from("I"))]);

export async function startRdsProxy(connectionString: string): Promise<RdsProxy> {
  const tokens: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    admit(socket, connectionString, tokens).catch(() => socket.destroy());
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
    tokens,
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

async function admit(socket: Socket, connectionString: string, tokens: string[]): Promise<void> {
  await once(socket, "data");
  socket.write(ASK_PASSWORD);
  const [answer] = (await once(socket, "data")) as [Buffer];
  const token = answer.subarray(5, -1).toString();
  if (!token.includes("X-Amz-Signature=")) {
    throw new Error("This is not a signed token.");
  }
  tokens.push(token);
  const client = new pg.Client({ connectionString });
  client.on("error", () => {});
  await client.connect();
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
  stream.removeAllListeners("data");
  socket.write(WELCOME);
  socket.pipe(stream).pipe(socket);
  socket.on("close", () => stream.destroy());
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}
