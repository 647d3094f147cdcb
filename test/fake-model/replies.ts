/** What the fake endpoint can be told to answer: the pieces of an HTTP answer, in order. */
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { OfflineAnswer, OfflineBlock } from "../../shared/model/offline/answer.ts";
import { words } from "../../shared/model/offline/offline-model.ts";

export type FakeStep =
  /** One event: the text of its data, sent as it is. */
  | { readonly data: string }
  /** Bytes of the body, sent as they are. */
  | { readonly bytes: string | Uint8Array }
  | { readonly waitMs: number }
  /** Goes on when this settles. Before the first byte it holds the answer's head back too. */
  | { readonly until: Promise<unknown> }
  /** Drops the connection; what follows is not sent. */
  | { readonly cut: true };

export interface FakeReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly steps: readonly FakeStep[];
}

export const SSE_HEADERS = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };

/** A stream of these events and no more. */
export function events(...data: readonly string[]): FakeReply {
  return { headers: { "request-id": "req_fake" }, steps: data.map((text) => ({ data: text })) };
}

/** An answer with a JSON body, as errors have it. */
export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): FakeReply {
  return {
    status,
    headers: { "content-type": "application/json", "request-id": "req_fake", ...headers },
    steps: [{ bytes: JSON.stringify(body) }],
  };
}

/** The error body of the Messages format. */
export function failure(status: number, type: string, message: string, headers?: Readonly<Record<string, string>>) {
  return json(status, { type: "error", error: { type, message }, request_id: "req_fake" }, headers);
}

/** One event on the wire, under its name. */
export function sse(data: string): string {
  const name = /"type"\s*:\s*"([\w]+)"/.exec(data)?.[1];
  return `${name ? `event: ${name}\n` : ""}data: ${data.replaceAll("\n", "\ndata: ")}\n\n`;
}

export async function play(reply: FakeReply, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const head = () => {
    if (!response.headersSent) response.writeHead(reply.status ?? 200, { ...SSE_HEADERS, ...reply.headers });
  };
  for (const step of reply.steps) {
    if (response.destroyed) return;
    if ("data" in step || "bytes" in step) {
      head();
      response.write("data" in step ? sse(step.data) : step.bytes);
    } else if ("waitMs" in step) {
      await sleep(step.waitMs, undefined, { signal: gone.signal }).catch(() => {});
    } else if ("until" in step) {
      await Promise.race([step.until, new Promise((resolve) => response.once("close", resolve))]);
    } else {
      // What was written goes out first, so that the reader meets it and then the cut.
      await new Promise((resolve) => response.write("", resolve));
      response.destroy();
      return;
    }
  }
  head();
  response.end();
}

/** The offline model's answer as the events of the Messages streaming format. */
export function answerEvents(answer: OfflineAnswer): string[] {
  const { usage } = answer;
  const event = (value: unknown) => JSON.stringify(value);
  return [
    event({
      type: "message_start",
      message: {
        id: answer.id,
        type: "message",
        role: "assistant",
        model: answer.model,
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: usage.inputTokens, output_tokens: 1 },
      },
    }),
    ...answer.blocks.flatMap((block, index) => [
      event({ type: "content_block_start", index, content_block: emptied(block) }),
      ...deltas(block).map((delta) => event({ type: "content_block_delta", index, delta })),
      event({ type: "content_block_stop", index }),
    ]),
    event({
      type: "message_delta",
      delta: { stop_reason: answer.stopReason, stop_sequence: null },
      usage: { output_tokens: usage.outputTokens },
    }),
    event({ type: "message_stop" }),
  ];
}

function emptied(block: OfflineBlock): OfflineBlock {
  return block.type === "text" ? { ...block, text: "" } : { ...block, input: {} };
}

function deltas(block: OfflineBlock): unknown[] {
  if (block.type === "text") return words(block.text).map((text) => ({ type: "text_delta", text }));
  const written = JSON.stringify(block.input);
  const middle = Math.ceil(written.length / 2);
  return [written.slice(0, middle), written.slice(middle)].map((partial_json) => ({
    type: "input_json_delta",
    partial_json,
  }));
}
