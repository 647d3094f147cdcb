/** Lambda's own API, as far as Invoke goes: a function invokes another. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Outcome } from "./lambda-environment.ts";

export interface InvokeApi {
  readonly url: string;
  close(): Promise<void>;
}

export async function startInvokeApi(
  invoke: (nameOrArn: string, event: unknown) => Promise<Outcome>,
): Promise<InvokeApi> {
  const server = createServer((request, response) => {
    answer(request, response, invoke).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  invoke: Parameters<typeof startInvokeApi>[0],
): Promise<void> {
  const [, name = ""] = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/.exec(request.url ?? "") ?? [];
  const event: unknown = JSON.parse(Buffer.concat((await request.toArray()) as Buffer[]).toString());
  const outcome = await invoke(decodeURIComponent(name), event);
  response.setHeader("content-type", "application/json");
  if (outcome.kind === "error") {
    response.setHeader("x-amz-function-error", "Unhandled");
    response.end(JSON.stringify({ errorType: outcome.type, errorMessage: outcome.message }));
  } else {
    response.end(Buffer.concat((await outcome.body.toArray()) as Buffer[]));
  }
}
