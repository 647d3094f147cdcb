/** Stands before Step Functions and throttles its starts while a test says so. */
import { once } from "node:events";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";

export interface Throttle {
  readonly url: string;
  /** Whether StartExecution is refused, as by a used-up quota. */
  on: boolean;
  /** Refused starts so far. */
  readonly refused: number;
  close(): Promise<void>;
}

export async function startThrottle(endpoint: string): Promise<Throttle> {
  const state = { on: false, refused: 0 };
  const server = createServer((request, response) => {
    if (state.on && request.headers["x-amz-target"] === "AWSStepFunctions.StartExecution") {
      state.refused += 1;
      request.resume();
      response.writeHead(400, { "content-type": "application/x-amz-json-1.0" });
      response.end(JSON.stringify({ __type: "ThrottlingException", message: "Rate exceeded" }));
      return;
    }
    const { headers, method, url } = request;
    const passed = httpRequest(new URL(url ?? "/", endpoint), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(state, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  });
}
