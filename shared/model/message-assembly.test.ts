import { describe, expect, it } from "vitest";
import { MalformedStream } from "./block-assembly.ts";
import { ErrorEvent, MessageAssembly } from "./message-assembly.ts";
import type { ModelPreview } from "./model.ts";

const START =
  '{"type":"message_start","message":{"id":"msg_1","model":"claude-x","usage":{"input_tokens":12,"output_tokens":1,"cache_read_input_tokens":5,"cache_creation_input_tokens":null}}}';
const STOP = '{"type":"message_stop"}';

function read(events: readonly string[], onPreview?: (preview: ModelPreview) => void): MessageAssembly {
  const message = new MessageAssembly(onPreview);
  for (const event of events) message.add(event);
  return message;
}

describe("a message", () => {
  it("has the model, the stop reason and the last of each count", () => {
    const message = read([
      START,
      '{"type":"ping"}',
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}',
      '{"type":"content_block_stop","index":0}',
      '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_details":null},"usage":{"output_tokens":9,"server_tool_use":{"web_search_requests":2,"web_fetch_requests":1}}}',
      '{"type":"comet","from":"the future"}',
      STOP,
    ]);
    expect(message.complete).toBe(true);
    expect(message.finish("req_1")).toEqual({
      content: '[{"type":"text","text":"Hi"}]',
      stopReason: "end_turn",
      stopDetails: null,
      model: "claude-x",
      usage: {
        inputTokens: 12,
        outputTokens: 9,
        cacheReadInputTokens: 5,
        cacheCreationInputTokens: 0,
        webSearchRequests: 2,
        webFetchRequests: 1,
      },
      requestId: "req_1",
    });
  });

  it("keeps the text of the stop details", () => {
    const message = read([
      START,
      '{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","z":1.0,"a":"\\u00e9"}},"usage":{}}',
      STOP,
    ]);
    expect(message.finish(null).stopDetails).toBe('{"type":"refusal","z":1.0,"a":"\\u00e9"}');
    expect(message.finish(null).content).toBe("[]");
  });

  it("has no stop reason when the provider gave none", () => {
    expect(read([START, STOP]).finish(null).stopReason).toBeNull();
  });

  it("puts blocks in the order of their indexes, interleaved or not", () => {
    const message = read([
      START,
      '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"b"}}',
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}',
      '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"B"}}',
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"A"}}',
      STOP,
    ]);
    expect(message.finish(null).content).toBe('[{"type":"text","text":"aA"},{"type":"text","text":"bB"}]');
  });

  it("previews block starts, and the text of text blocks alone", () => {
    const seen: ModelPreview[] = [];
    read(
      [
        START,
        '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}',
        '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}',
        '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"caf\\u00e9"}}',
        '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":""}}',
      ],
      (preview) => seen.push(preview),
    );
    expect(seen).toEqual([
      { type: "block_start", index: 0, blockType: "thinking" },
      { type: "block_start", index: 1, blockType: "text" },
      { type: "text_delta", index: 1, text: "café" },
    ]);
  });
});

describe("a broken stream", () => {
  it.each([
    ["no JSON", "data"],
    ["a delta without a block", '{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"x"}}'],
    ["a start without a block", '{"type":"content_block_start","index":0}'],
    ["no index", '{"type":"content_block_start","content_block":{"type":"text"}}'],
  ])("is told by %s", (_, event) => {
    expect(() => read([START, event])).toThrow(MalformedStream);
  });

  it("is told by a block that starts twice", () => {
    const start = '{"type":"content_block_start","index":0,"content_block":{"type":"text"}}';
    expect(() => read([START, start, start])).toThrow(MalformedStream);
  });

  it("ends at an error event", () => {
    expect(() => read([START, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'])).toThrow(
      ErrorEvent,
    );
  });
});
