import { setTimeout } from "node:timers/promises";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import type { Product } from "../product.ts";

/** How often, and with which pauses, an answer that is here and paid for is tried to be stored. */
const STORE_PAUSES_MS = [100, 400, 1600];

/**
 * Stores an outcome, through a database that is away for a moment. Every outcome may be stored twice: the second time
 * finds the first and changes nothing.
 */
export async function storeOutcome<T>(product: Product, store: (transaction: Transaction) => Promise<T>): Promise<T> {
  for (const pause of STORE_PAUSES_MS) {
    try {
      return await inTransaction(product.database, store);
    } catch (error) {
      product.log.warn("An outcome could not be stored and is tried again.", { error: (error as Error).name });
      await setTimeout(pause);
    }
  }
  return inTransaction(product.database, store);
}
