import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

/** A cable between a worker and a server, which a test can cut and mend, and plug into another server. */
export interface CuttableProxy {
  readonly url: string;
  /** Where new connections lead. */
  plugInto(url: string): void;
  /** From now on packets vanish: nothing is closed, nothing arrives, new connections get no answer. */
  cut(): void;
  /** What was open is gone, as after a router's restart; new connections work. */
  mend(): void;
  close(): Promise<void>;
}

export async function startCuttableProxy(target: string): Promise<CuttableProxy> {
  let to = new URL(target);
  let isCut = false;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    keep(near);
    if (isCut) return;
    const far = connect(Number(to.port), to.hostname);
    keep(far);
    pass(near, far);
    pass(far, near);
  });

  function keep(socket: Socket): void {
    open.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => open.delete(socket));
  }

  function pass(from: Socket, onto: Socket): void {
    from.on("data", (bytes) => {
      if (!isCut) onto.write(bytes);
    });
    from.once("close", () => {
      if (!isCut) onto.destroy();
    });
  }

  function dropAll(): void {
    for (const socket of open) socket.destroy();
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    plugInto(url) {
      to = new URL(url);
    },
    cut() {
      isCut = true;
    },
    mend() {
      isCut = false;
      dropAll();
    },
    async close() {
      dropAll();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
