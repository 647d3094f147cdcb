/**
 * Task tokens: 144 random bits and a signature.
 *
 * The signature tells a token that was given out and has served its time (TaskTimedOut) from one that never was
 * (InvalidToken), without a row for each token ever made.
 */

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { TaskAnswer } from "./position.ts";

const NONCE_BYTES = 18;
const SIGNATURE_BYTES = 32;

/** What a waiting task lets the outside do. Both promise that it is durable. */
export interface TokenHolder {
  /** False: an earlier answer or the timeout was first. */
  answer(answer: TaskAnswer): Promise<boolean>;
  heartbeat(): Promise<void>;
}

export type TokenLookup = TokenHolder | "never issued" | "closed";

export class TaskTokens {
  readonly #key: Buffer;
  readonly #holders = new Map<string, TokenHolder>();

  constructor(key: Buffer) {
    this.#key = key;
  }

  issue(): string {
    const nonce = randomBytes(NONCE_BYTES);
    return Buffer.concat([nonce, this.#sign(nonce)]).toString("base64url");
  }

  /** Opens the token for answers until the returned function is called. */
  hold(token: string, holder: TokenHolder): () => void {
    this.#holders.set(token, holder);
    return () => this.#holders.delete(token);
  }

  find(token: string): TokenLookup {
    const holder = this.#holders.get(token);
    if (holder !== undefined) return holder;
    return this.#wasIssued(token) ? "closed" : "never issued";
  }

  #wasIssued(token: string): boolean {
    const bytes = Buffer.from(token, "base64url");
    if (bytes.length !== NONCE_BYTES + SIGNATURE_BYTES) return false;
    return timingSafeEqual(bytes.subarray(NONCE_BYTES), this.#sign(bytes.subarray(0, NONCE_BYTES)));
  }

  #sign(nonce: Buffer): Buffer {
    return createHmac("sha256", this.#key).update(nonce).digest();
  }
}
