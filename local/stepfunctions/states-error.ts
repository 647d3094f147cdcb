/**
 * How a state fails: an error name that Retry and Catch match, and a cause for people.
 *
 * `States.DataLimitExceeded` and `States.Runtime` are terminal: no retrier and no catcher sees them.
 */

export type FailureKind = "task" | "timeout" | "heartbeat" | "interpreter";

export interface StatesErrorOptions {
  readonly kind?: FailureKind;
  /** The cause quotes a handler: it reaches `$states.errorOutput` and nothing else, as it may hold conversation text. */
  readonly confidential?: boolean;
}

export class StatesError extends Error {
  /** Null where `SendTaskFailure` named none. */
  readonly errorName: string | null;
  readonly causeText: string | null;
  readonly kind: FailureKind;
  readonly confidential: boolean;

  constructor(errorName: string | null, causeText: string | null, options: StatesErrorOptions = {}) {
    // The message stays free of the cause: whoever logs this error logs no more than its name.
    super(errorName ?? "(no error name)");
    this.name = "StatesError";
    this.errorName = errorName;
    this.causeText = causeText;
    this.kind = options.kind ?? "interpreter";
    this.confidential = options.confidential ?? false;
  }

  get terminal(): boolean {
    return this.errorName === "States.DataLimitExceeded" || this.errorName === "States.Runtime";
  }

  /** What a catcher finds in `$states.errorOutput`. */
  get errorOutput(): { readonly Error: string | null; readonly Cause: string | null } {
    return { Error: this.errorName, Cause: this.causeText };
  }
}

/** Says whether an `ErrorEquals` list names this failure. */
export function matchesError(errorEquals: readonly string[], failure: StatesError): boolean {
  if (failure.terminal) return false;
  return errorEquals.some((name) => {
    switch (name) {
      case "States.ALL":
        return true;
      case "States.TaskFailed":
        // "A wildcard that matches any known error name except for States.Timeout."
        return failure.kind !== "timeout" && failure.kind !== "heartbeat";
      case "States.HeartbeatTimeout":
        // A missed heartbeat is reported as States.Timeout; this narrower name is for Retry and Catch only.
        return failure.kind === "heartbeat" || failure.errorName === name;
      default:
        return failure.errorName === name;
    }
  });
}

/** The state, or for a task its service, made more than 256 KiB. */
export function dataLimitExceeded(producer: string): StatesError {
  return new StatesError(
    "States.DataLimitExceeded",
    `The state/task '${producer}' returned a result with a size exceeding the maximum number of bytes service limit.`,
  );
}

/** A missed heartbeat and a missed deadline have the same name; only Retry and Catch tell them apart. */
export function timedOut(kind: "timeout" | "heartbeat"): StatesError {
  return new StatesError("States.Timeout", "", { kind });
}
