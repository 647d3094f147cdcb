import { operate } from "../shared/operator/operate.ts";
import { invocation } from "./invocation.ts";
import { product } from "./product.ts";
import { resumed } from "./resumed.ts";

/** Enough for one more look at the database, and for the command itself. */
const COMMAND_MS = 15_000;

/**
 * The operator's commands. Whoever IAM lets invoke this function is one: it has no address that HTTP reaches.
 *
 * A command is sent once, and never again behind the operator's back. So where the database may be paused, it is the
 * function that waits for it.
 */
export const handler = invocation(async (event: unknown, context) => {
  const { database, quiet } = product();
  if (quiet !== null) {
    await quiet.note();
    await resumed(database, { leftMs: () => context.getRemainingTimeInMillis() - COMMAND_MS });
  }
  return operate(database, event);
});
