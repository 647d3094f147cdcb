/** The port to Step Functions. Both calls are idempotent in effect; an outcome that AWS calls an error is ordinary here. */
export interface Orchestrator {
  /** Starts an execution. `exists`: the name is taken by a closed execution; the journal decides what that means. */
  start(params: { readonly name: string; readonly input: string }): Promise<"started" | "exists">;
  /** Answers a parked state. `stale`: nothing waits on that token any more. */
  release(params: { readonly taskToken: string; readonly output: string }): Promise<"released" | "stale">;
}
