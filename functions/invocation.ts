import middy, { type MiddlewareObj } from "@middy/core";
import { TurnBusyError } from "../shared/turns/turn-errors.ts";
import { EnvironmentError } from "./environment.ts";
import { log } from "./log.ts";
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

/**
 * Lambda writes an error's message into its log and, through Step Functions, into the execution's history; a message
 * of the database may quote the conversation. Only the name goes out: it is what the states' Retry looks at.
 */
function codedErrors(): MiddlewareObj {
  return {
    onError(request) {
      request.error = coded(request.error);
    },
  };
}

function coded(error: unknown): Error {
  const name = error instanceof Error ? error.name : "unknown";
  if (error instanceof EnvironmentError) {
    log.error(error.message);
  } else if (error instanceof TurnBusyError) {
    log.info("Another invocation works on this turn; the state machine asks again.");
  } else {
    const { code, stack } = (error ?? {}) as { code?: unknown; stack?: string };
    log.error("An invocation failed.", {
      error: name,
      code: typeof code === "string" ? code : undefined,
      at: stack
        ?.split("\n")
        .find((line) => line.trimStart().startsWith("at "))
        ?.trim(),
    });
  }
  const outside = new Error("The function's log says more.");
  outside.name = name;
  delete outside.stack;
  return outside;
}
