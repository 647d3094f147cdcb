/** The port to Step Functions. Both calls are idempotent in effect; an outcome that AWS calls an error is ordinary here. */
export interface Orchestrator {
  /** Starts an execution. `exists`: the name is taken by a closed execution; the journal decides what that means. */
  start(params: { readonly name: string; readonly input: string }): Promise<"started" | "exists">;
  /** Whether the execution of that name is under way: a hint, for a turn that has not moved for a while. */
  find(params: { readonly name: string }): Promise<"running" | "ended" | "unknown">;
  /** Answers a parked state. `stale`: nothing waits on that token any more. */
  release(params: { readonly taskToken: string; readonly output: string }): Promise<"released" | "stale">;
}
