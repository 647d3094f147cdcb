import { setTimeout } from "node:timers/promises";
import type { Transaction } from "../shared/db/transaction.ts";

const PAUSE_MS = 500;

/**
 * Waits until a database that was paused answers: fifteen seconds, thirty after a day. For whoever cannot be told to
 * come again. Only the question is repeated, so nothing is done twice; what it failed with last is thrown.
 */
export async function resumed(database: Transaction, params: { readonly leftMs: () => number }): Promise<void> {
  for (;;) {
    try {
      await database.query("select 1");
      return;
    } catch (error) {
      if (params.leftMs() <= 0) {
        throw error;
      }
    }
    await setTimeout(PAUSE_MS);
  }
}
