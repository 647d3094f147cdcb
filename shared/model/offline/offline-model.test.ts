import { describe, expect, it } from "vitest";
import { startFakeModel } from "../../../test/fake-model/server.ts";
import { messagesModel } from "../messages-model.ts";
import { ModelAborted, type ModelPreview } from "../model.ts";
import { offlineModel } from "./offline-model.ts";

const BODY = JSON.stringify({
  model: "offline-1",
  max_tokens: 1000,
  tools: [{ name: "read", input_schema: { type: "object" } }],
  messages: [{ role: "user", content: "read README.md" }],
});

function stream(options: { body?: string; signal?: AbortSignal; onPreview?: (preview: ModelPreview) => void } = {}) {
  const { body = BODY, signal = new AbortController().signal, onPreview } = options;
  return offlineModel({ chunkDelayMs: 1 }).stream({ body, signal, ...(onPreview && { onPreview }) });
}

describe("the offline model", () => {
  it("streams its text by the word", async () => {
    const seen: ModelPreview[] = [];
    const response = await stream({ onPreview: (preview) => seen.push(preview) });
    expect(seen).toEqual([
      { type: "block_start", index: 0, blockType: "text" },
      { type: "text_delta", index: 0, text: "I'll " },
      { type: "text_delta", index: 0, text: "read " },
      { type: "text_delta", index: 0, text: "README.md." },
      { type: "block_start", index: 1, blockType: "tool_use" },
    ]);
    expect(response).toMatchObject({ stopReason: "tool_use", stopDetails: null, model: "offline-1", requestId: null });
    expect(response.content).toMatch(
      /^\[\{"type":"text","text":"I'll read README\.md\."\},\{"type":"tool_use","id":"toolu_[0-9a-f]+","name":"read","input":\{"file_path":"README\.md"\}\}\]$/,
    );
  });

  it("says over the wire exactly what it says in process", async () => {
    const fake = await startFakeModel();
    const model = messagesModel({ baseURL: fake.url, apiKey: "k", auth: "x-api-key" });
    const overHttp = await model.stream({ body: BODY, signal: new AbortController().signal });
    await fake.close();
    const inProcess = await stream();
    expect({ ...overHttp, requestId: null }).toEqual(inProcess);
  });

  it("stops when it is aborted, before and while it speaks", async () => {
    await expect(stream({ signal: AbortSignal.abort() })).rejects.toThrow(ModelAborted);
    const stop = new AbortController();
    const error: unknown = await stream({ signal: stop.signal, onPreview: () => stop.abort() }).catch(
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(ModelAborted);
    expect((error as ModelAborted).usage).toMatchObject({ inputTokens: Math.ceil(BODY.length / 4) });
  });

  it("refuses a body that is no Messages request", async () => {
    await expect(stream({ body: "{" })).rejects.toMatchObject({ name: "ModelError", retryable: false });
  });
});
