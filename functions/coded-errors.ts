import type { MiddlewareObj } from "@middy/core";
import { TurnBusyError } from "../shared/turns/turn-errors.ts";
import { EnvironmentError } from "./environment.ts";
import { log } from "./log.ts";

/**
 * Lambda writes an error's message into its log and, through Step Functions, into the execution's history; a message
 * of the database may quote the conversation. Only the name goes out: it is what the states' Retry looks at.
 */
export function codedErrors(): MiddlewareObj {
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
  // No place in the code, but a line: AWS's older runtime clients split it, and call an error without one "handled".
  outside.stack = `${name}: ${outside.message}`;
  return outside;
}
