import { assertPlaceLeft, type StreamCaps, type StreamPlaces } from "./stream-places.ts";

/** Most streams at once that one process serves for one key. */
export const STREAMS_PER_KEY = 2000;

/** Counts the open streams of this process. */
export function memoryStreamPlaces(caps: StreamCaps): StreamPlaces {
  const open = new Map<string, number>();
  const count = (name: string) => open.get(name) ?? 0;
  return {
    async take({ keyId, sessionId }) {
      assertPlaceLeft({ ofKey: count(keyId), ofSession: count(sessionId) }, caps);
      const taken = [keyId, sessionId];
      for (const name of taken) {
        open.set(name, count(name) + 1);
      }
      return async () => {
        for (const name of taken.splice(0)) {
          if (count(name) > 1) {
            open.set(name, count(name) - 1);
          } else {
            open.delete(name);
          }
        }
      };
    },
  };
}
