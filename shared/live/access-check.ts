import { secretDigest } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { findPrincipal } from "../workspaces/keys.ts";

/** A verdict is shared by all streams of a secret for this long: a revoked key ends its streams within a second or two. */
const FRESH_MS = 1000;

/** Tells whether a secret still opens what it opened, at one query a second for each secret, however many streams use it. */
export class AccessCheck {
  readonly #database: Transaction;
  readonly #verdicts = new Map<string, { readonly at: number; readonly allowed: Promise<boolean> }>();

  constructor(database: Transaction) {
    this.#database = database;
  }

  /** Rejects when the database cannot be asked: no verdict. */
  stillAllowed(secret: string): Promise<boolean> {
    // By digest: a secret stays in memory no longer than its requests.
    const name = secretDigest(secret).toString("base64");
    const known = this.#verdicts.get(name);
    if (known !== undefined && performance.now() - known.at < FRESH_MS) {
      return known.allowed;
    }
    const allowed = findPrincipal(this.#database, secret).then((principal) => principal !== null);
    this.#verdicts.set(name, { at: performance.now(), allowed });
    // Neither a failure nor a dead secret is remembered, and no verdict longer than it counts.
    const forget = () => this.#verdicts.delete(name);
    allowed.then((yes) => yes || forget(), forget);
    for (const [other, { at }] of this.#verdicts) {
      if (performance.now() - at >= FRESH_MS) {
        this.#verdicts.delete(other);
      }
    }
    return allowed;
  }
}
