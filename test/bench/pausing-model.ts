import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * A model endpoint that pauses `rounds - 1` times before it ends the turn, and notes the time between the end of each
 * response and the next request of the same turn: what the server itself takes for a round.
 */
export async function pausingModel(rounds: number): Promise<{ url: string; gaps: number[]; close(): Promise<void> }> {
  const gaps: number[] = [];
  let round = 0;
  let ended: number | undefined;
  const server = createServer((request, response) => {
    if (ended !== undefined) {
      gaps.push(performance.now() - ended);
    }
    request.resume().once("end", () => {
      round += 1;
      const last = round % rounds === 0;
      response.writeHead(200, { "content-type": "text/event-stream", "request-id": `req_${round}` });
      response.end(answer(last ? "end_turn" : "pause_turn"), () => {
        ended = last ? undefined : performance.now();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    gaps,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function answer(stopReason: string): string {
  const usage = { input_tokens: 10, output_tokens: 2 };
  const events = [
    {
      type: "message_start",
      message: {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "bench",
        content: [],
        stop_reason: null,
        usage,
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "More." } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: stopReason }, usage },
    { type: "message_stop" },
  ];
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
}
