import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { watchedFetch } from "./stream-watch.ts";

async function serve(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_, response) => answer(response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const SSE = { "content-type": "text/event-stream" };

describe("watchedFetch", () => {
  it("breaks a stream that has fallen silent, and not before what came is read", async () => {
    const url = await serve((response) => response.writeHead(200, SSE).write(": attached\n\n"));
    const reader = (await watchedFetch(300)(url)).body?.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader?.read())?.value).toBe(": attached\n\n");
    await expect(reader?.read()).rejects.toThrow("silent for 300 ms");
  });

  it("leaves a stream alone that goes on saying something", async () => {
    const url = await serve((response) => {
      response.writeHead(200, SSE);
      let said = 0;
      const timer = setInterval(() => {
        response.write(": still here\n\n");
        said += 1;
        if (said === 8) {
          clearInterval(timer);
          response.end();
        }
      }, 250);
    });
    expect((await (await watchedFetch(1_500)(url)).text()).split("\n\n")).toHaveLength(9);
  });

  it("does not touch any other answer", async () => {
    const url = await serve((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      setTimeout(() => response.end('{"slow":true}'), 500);
    });
    expect(await (await watchedFetch(100)(url)).json()).toEqual({ slow: true });
  });
});
