/** The model of the default run: needs no key, no network and gives the same answer to the same request. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Model, ModelAborted, ModelError, type ModelRequest } from "../model.ts";
import { type OfflineAnswer, offlineAnswer, usageOf } from "./answer.ts";

export interface OfflineModelOptions {
  /** Pause after each word; 15 reads like a person typing fast. 0 answers at once. */
  readonly chunkDelayMs?: number;
}

export function offlineModel({ chunkDelayMs = 0 }: OfflineModelOptions = {}): Model {
  return {
    provider: "offline",
    async stream(request) {
      if (request.signal.aborted) throw new ModelAborted(null);
      const answer = answerTo(request.body);
      try {
        await tell(answer, request, chunkDelayMs);
      } catch (cause) {
        if (!request.signal.aborted) throw cause;
        throw new ModelAborted(usageOf(request.body, []));
      }
      return {
        content: `[${answer.blocks.map((block) => JSON.stringify(block)).join(",")}]`,
        stopReason: answer.stopReason,
        stopDetails: null,
        model: answer.model,
        usage: answer.usage,
        requestId: null,
      };
    },
  };
}

function answerTo(body: string): OfflineAnswer {
  try {
    return offlineAnswer(body);
  } catch {
    throw new ModelError("The request is not in the Messages format.", {
      type: "model_request_failed_error",
      retryable: false,
    });
  }
}

async function tell(answer: OfflineAnswer, request: ModelRequest, chunkDelayMs: number): Promise<void> {
  for (const [index, block] of answer.blocks.entries()) {
    request.onPreview?.({ type: "block_start", index, blockType: block.type });
    if (block.type !== "text") continue;
    for (const text of words(block.text)) {
      if (chunkDelayMs > 0) await sleep(chunkDelayMs, undefined, { signal: request.signal });
      request.signal.throwIfAborted();
      request.onPreview?.({ type: "text_delta", index, text });
    }
  }
}

/** Word by word, each with the white space after it; together the text. */
export function words(text: string): string[] {
  return text.match(/\S+\s*|\s+/g) ?? [];
}
