/** Another invocation works on this turn and its lease is live: come back. Retried by the state machine. */
export class TurnBusyError extends Error {
  override readonly name = "TurnBusyError";
  constructor(turnId: string) {
    super(`Another invocation works on ${turnId}.`);
  }
}
