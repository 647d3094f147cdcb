import { RateLimited } from "../contract/errors.ts";

/**
 * The places that open streams take, so that one client cannot have all of them: every stream holds something, on AWS a
 * whole Lambda.
 */
export interface StreamPlaces {
  /** Takes a place, or throws `RateLimited`. Returns what gives it back; calling that again is harmless. */
  take(stream: StreamOwner): Promise<() => Promise<void>>;
}

export interface StreamOwner {
  /** What the stream was opened with: a key's id, or a work item's. */
  readonly keyId: string;
  readonly sessionId: string;
}

/** Most streams at once. */
export interface StreamCaps {
  readonly perKey: number;
  readonly perSession: number;
}

export const STREAMS_PER_SESSION = 50;

/** @throws RateLimited when one of them has reached its cap. */
export function assertPlaceLeft(open: { readonly ofKey: number; readonly ofSession: number }, caps: StreamCaps): void {
  assertBelow(caps.perKey, open.ofKey, "with this key");
  assertBelow(caps.perSession, open.ofSession, "of this session");
}

function assertBelow(most: number, open: number, what: string): void {
  if (open >= most) {
    throw new RateLimited(`${most} streams are open ${what}; close one, or try again later.`, { retryAfter: 5 });
  }
}
