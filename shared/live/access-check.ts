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
    const known = this.#verdicts.get(secret);
    if (known !== undefined && performance.now() - known.at < FRESH_MS) {
      return known.allowed;
    }
    const allowed = findPrincipal(this.#database, secret).then((principal) => principal !== null);
    this.#verdicts.set(secret, { at: performance.now(), allowed });
    // Neither a failure nor a dead secret is remembered.
    const forget = () => this.#verdicts.delete(secret);
    allowed.then((yes) => yes || forget(), forget);
    return allowed;
  }
}
