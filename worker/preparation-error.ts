/** What a session needs here could not be had. The message is for the session's people; the cause is for the log. */
export class PreparationError extends Error {
  constructor(what: string, cause: unknown) {
    super(`The worker could not prepare ${what}.`, { cause });
  }
}

/** The task's result; its failure becomes a `PreparationError`. */
export async function prepare<Value>(what: string, task: Promise<Value>): Promise<Value> {
  try {
    return await task;
  } catch (error) {
    throw new PreparationError(what, error);
  }
}
