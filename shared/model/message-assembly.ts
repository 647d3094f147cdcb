/**
 * Reads the events of one Messages stream, in order, into a response.
 *
 * An event is known by the `type` in its data, as the official clients have it; the SSE event name may be missing.
 * Event types that are not known here are skipped: the format promises that new ones may be added.
 */
import { BlockAssembly, MalformedStream } from "./block-assembly.ts";
import { jsonField } from "./json-text.ts";
import type { ModelPreview, ModelResponse, ModelUsage } from "./model.ts";
import { asRecord, updateUsage } from "./usage.ts";

/** The provider ended the stream with an `error` event. */
export class ErrorEvent extends Error {
  override readonly name = "ErrorEvent";
  readonly event: StreamEvent;

  constructor(event: StreamEvent) {
    super("The provider sent an error event.");
    this.event = event;
  }
}

export type StreamEvent = Readonly<Record<string, unknown>>;

export class MessageAssembly {
  /** What the provider has reported so far; null before its first report. */
  usage: ModelUsage | null = null;
  /** `message_stop` has come: nothing more belongs to the message. */
  complete = false;

  readonly #onPreview: ((preview: ModelPreview) => void) | undefined;
  readonly #blocks = new Map<number, BlockAssembly>();
  #model = "";
  #stopReason: string | null = null;
  #stopDetails: string | null = null;

  constructor(onPreview?: (preview: ModelPreview) => void) {
    this.#onPreview = onPreview;
  }

  /** `data` is the text of one event's data. Throws `ErrorEvent` or `MalformedStream`. */
  add(data: string): void {
    if (this.complete) return;
    const event = parseEvent(data);
    switch (event["type"]) {
      case "message_start": {
        const message = asRecord(event["message"]);
        if (typeof message["model"] === "string") this.#model = message["model"];
        this.usage = updateUsage(this.usage, asRecord(message["usage"]));
        break;
      }
      case "content_block_start":
        this.#startBlock(event, data);
        break;
      case "content_block_delta":
        this.#addDelta(event, data);
        break;
      case "message_delta":
        this.#addMessageDelta(event, data);
        break;
      case "message_stop":
        this.complete = true;
        break;
      case "error":
        throw new ErrorEvent(event);
    }
  }

  /** The response, once `complete`. */
  finish(requestId: string | null): ModelResponse {
    const inOrder = [...this.#blocks].sort(([a], [b]) => a - b);
    return {
      content: `[${inOrder.map(([, block]) => block.finish()).join(",")}]`,
      stopReason: this.#stopReason,
      stopDetails: this.#stopDetails,
      model: this.#model,
      usage: this.usage ?? updateUsage(null, {}),
      requestId,
    };
  }

  #startBlock(event: StreamEvent, data: string): void {
    const index = indexOf(event);
    const start = jsonField(data, "content_block");
    if (start?.[0] !== "{") throw new MalformedStream("A content_block_start without its block.");
    if (this.#blocks.has(index)) throw new MalformedStream(`Content block ${index} started twice.`);
    const type = stringOf(asRecord(event["content_block"])["type"]);
    this.#blocks.set(index, new BlockAssembly(start, type));
    this.#onPreview?.({ type: "block_start", index, blockType: type });
  }

  #addDelta(event: StreamEvent, data: string): void {
    const index = indexOf(event);
    const block = this.#blocks.get(index);
    const delta = asRecord(event["delta"]);
    const raw = jsonField(data, "delta");
    if (!block || raw?.[0] !== "{") throw new MalformedStream(`A delta that belongs to no block (${index}).`);
    const type = stringOf(delta["type"]);
    block.add(raw, type);
    const text = delta["text"];
    if (type === "text_delta" && block.type === "text" && typeof text === "string" && text !== "") {
      this.#onPreview?.({ type: "text_delta", index, text });
    }
  }

  #addMessageDelta(event: StreamEvent, data: string): void {
    const delta = asRecord(event["delta"]);
    if (typeof delta["stop_reason"] === "string") this.#stopReason = delta["stop_reason"];
    const details = jsonField(jsonField(data, "delta") ?? "", "stop_details");
    if (details !== undefined && details !== "null") this.#stopDetails = details;
    this.usage = updateUsage(this.usage, asRecord(event["usage"]));
  }
}

function parseEvent(data: string): StreamEvent {
  try {
    return asRecord(JSON.parse(data));
  } catch {
    // Without the parser's error as the cause: it quotes the data.
    throw new MalformedStream("An event's data is not JSON.");
  }
}

function indexOf(event: StreamEvent): number {
  const index = event["index"];
  if (typeof index !== "number" || !Number.isSafeInteger(index) || index < 0) {
    throw new MalformedStream("A content block event without an index.");
  }
  return index;
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
