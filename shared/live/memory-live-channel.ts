import { EventEmitter } from "node:events";
import type { LiveChannel } from "./live-channel.ts";

/** The live channel of one process: listeners are told at once. */
export function memoryLiveChannel(): LiveChannel {
  const topics = new EventEmitter();
  // One listener a stream; a thousand streams are ordinary.
  topics.setMaxListeners(0);
  return {
    async publish(topic, message) {
      topics.emit(topic, message);
    },
    subscribe(topic, listener) {
      topics.on(topic, listener);
      return { pollEvery() {}, close: () => topics.off(topic, listener) };
    },
  };
}
