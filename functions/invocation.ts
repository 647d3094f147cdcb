import middy, { type MiddlewareObj } from "@middy/core";
import { codedErrors } from "./coded-errors.ts";
import { observed } from "./observation.ts";
import { product, settle } from "./product.ts";

/** What surrounds the work of every function that is not behind the API. */
export function invocation<Event, Answer>(work: (event: Event, context: LambdaContext) => Promise<Answer>) {
  return middy<Event, Answer>({ timeoutEarlyInMillis: 0 })
    .use(observed())
    .use(nothingUnderWay())
    .use(activity())
    .use(codedErrors())
    .handler(work);
}

/** What our functions use of Lambda's context. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number;
}

/**
 * After an invocation its environment is frozen: what it began without waiting (previews and wake-ups) must have been
 * sent by then, or it is sent minutes later or never.
 */
export function nothingUnderWay(): MiddlewareObj {
  return { after: settle, onError: settle };
}

/** A state of a turn, or what brings one back, is activity: the database may not pause under it. */
function activity(): MiddlewareObj<{ readonly turnId?: unknown }> {
  return {
    async before({ event }) {
      if (event?.turnId !== undefined) {
        await product().quiet?.note();
      }
    },
  };
}
