import type { LiveChannel } from "../live/live-channel.ts";
import type { ModelPreview } from "../model/model.ts";
import type { BegunRound } from "./begin-round.ts";
import { messageEventId, thinkingEventId } from "./finish-round.ts";

/**
 * Turns a response under way into the public previews: `event_start`, then `event_delta`s whose `index` counts the
 * text blocks of the message to come, and whose ids are the message's own. Thinking is announced, never shown.
 */
export function previewPublisher(live: LiveChannel, begun: BegunRound): (preview: ModelPreview) => void {
  const started = new Set<string>();
  const pieces = new Map<string, number>();
  /** Provider block index → index in the message's content. */
  const textIndex = new Map<number, number>();

  const publish = (eventId: string, event: Parameters<LiveChannel["publish"]>[1] & { type: "preview" }) => {
    pieces.set(eventId, event.piece + 1);
    void live.publish(begun.session.id, event);
  };
  const start = (type: string, id: string) => {
    if (!started.has(id)) {
      started.add(id);
      publish(id, {
        type: "preview",
        threadId: begun.turn.threadId,
        afterSeq: begun.spanSeq,
        piece: 0,
        event: { type: "event_start", event: { type, id } },
      });
    }
  };

  return (preview) => {
    const messageId = messageEventId(begun.callId);
    if (preview.type === "block_start") {
      if (preview.blockType === "text") {
        textIndex.set(preview.index, textIndex.size);
        start("agent.message", messageId);
      } else if (preview.blockType === "thinking" || preview.blockType === "redacted_thinking") {
        start("agent.thinking", thinkingEventId(begun.callId));
      }
      return;
    }
    const index = textIndex.get(preview.index);
    if (index === undefined || preview.text === "") {
      return;
    }
    publish(messageId, {
      type: "preview",
      threadId: begun.turn.threadId,
      afterSeq: begun.spanSeq,
      piece: pieces.get(messageId) ?? 0,
      event: {
        type: "event_delta",
        event_id: messageId,
        delta: { type: "content_delta", index, content: { type: "text", text: preview.text } },
      },
    });
  };
}
