import { setTimeout as sleep } from "node:timers/promises";

/** Resolves after `ms` or as soon as the signal aborts, whichever comes first; never rejects. */
export type Wait = (ms: number, signal: AbortSignal) => Promise<void>;

export const wait: Wait = async (ms, signal) => {
  await sleep(ms, undefined, { signal }).catch(() => {});
};
