/** A loaded definition: everything checked, every expression compiled. */

import type { Expression } from "./expression.ts";
import type { Template } from "./template.ts";

/** A state machine, or the item processor of a Map. */
export interface StateMachineDefinition {
  readonly startAt: string;
  readonly states: ReadonlyMap<string, State>;
}

export type State = TaskState | ChoiceState | MapState | PassState | WaitState | SucceedState | FailState;

/** What a state may do with its result before it is left. */
export interface Exit {
  /** Null: the result (Task, Map) or the input (the others) goes on unchanged. */
  readonly output: Template | null;
  readonly assign: Template | null;
  /** Null: the state ends its machine. */
  readonly next: string | null;
}

interface Named {
  readonly name: string;
}

interface Fallible {
  readonly retry: readonly Retrier[];
  readonly catch: readonly Catcher[];
}

export interface TaskState extends Named, Exit, Fallible {
  readonly type: "Task";
  /** Whether the state waits for SendTaskSuccess or SendTaskFailure instead of taking the function's answer. */
  readonly waitForTaskToken: boolean;
  readonly functionName: string | Expression;
  readonly payload: Template | null;
  readonly timeoutSeconds: number | Expression | null;
  readonly heartbeatSeconds: number | Expression | null;
}

export interface ChoiceState extends Named {
  readonly type: "Choice";
  readonly choices: readonly ChoiceRule[];
  /** Taken when no rule matches, with the Assign and Output of the state itself. Its `next` is Default, or null. */
  readonly otherwise: Exit;
}

interface ChoiceRule {
  readonly condition: boolean | Expression;
  readonly exit: Exit;
}

export interface MapState extends Named, Exit, Fallible {
  readonly type: "Map";
  /** Null: the input is the array. */
  readonly items: Template | null;
  readonly itemSelector: Template | null;
  readonly itemProcessor: StateMachineDefinition;
  readonly maxConcurrency: number | Expression;
}

interface PassState extends Named, Exit {
  readonly type: "Pass";
}

export interface WaitState extends Named, Exit {
  readonly type: "Wait";
  readonly until: { readonly seconds: number | Expression } | { readonly timestamp: string | Expression };
}

interface SucceedState extends Named {
  readonly type: "Succeed";
  readonly output: Template | null;
}

export interface FailState extends Named {
  readonly type: "Fail";
  readonly error: string | Expression | null;
  readonly cause: string | Expression | null;
}

export interface Retrier {
  readonly errorEquals: readonly string[];
  readonly intervalSeconds: number;
  readonly maxAttempts: number;
  readonly backoffRate: number;
  readonly maxDelaySeconds: number | null;
  readonly jitterStrategy: "FULL" | "NONE";
}

export interface Catcher {
  readonly errorEquals: readonly string[];
  readonly output: Template | null;
  readonly assign: Template | null;
  readonly next: string;
}
