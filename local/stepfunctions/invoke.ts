/** What stands for the Lambda service. */

import type { Json } from "./json.ts";

interface InvocationContext {
  /** When the state gives up on the answer; absent without TimeoutSeconds, and for tasks with a token. */
  readonly deadline?: Date;
}

/** Resolves to what the function returns. An error it throws is the task's failure, under the error's name. */
export type Invoke = (functionName: string, payload: Json, context: InvocationContext) => Promise<unknown>;
