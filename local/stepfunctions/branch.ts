/** One line of states under way: an execution has one, and one more for each running iteration of a Map. */

import type { State, StateMachineDefinition } from "./definition.ts";
import type { EvaluationScope } from "./expression.ts";
import type { Halt } from "./halt.ts";
import type { Json, JsonObject } from "./json.ts";
import type { Activity, Position, PositionHolder } from "./position.ts";
import { StatesError } from "./states-error.ts";

/** What surrounds a branch and stays the same while it runs. */
export interface BranchScope {
  readonly machine: StateMachineDefinition;
  readonly halt: Halt;
  /** Variables of the branches around this one; it reads and never assigns them. */
  readonly outerVariables: JsonObject;
  /** `$states.context.Map.Item` within an iteration. */
  readonly mapItem: MapItem | null;
}

export interface MapItem {
  readonly Index: number;
  readonly Value: Json;
}

/** The parts of `$states` that only some fields see. */
export interface ExtraBindings {
  readonly result?: Json;
  readonly errorOutput?: Json;
  readonly taskToken?: string;
  readonly mapItem?: MapItem;
}

/** `$states.context` as far as it is the same for the whole execution. */
export interface ExecutionContext {
  readonly Execution: JsonObject;
  readonly StateMachine: JsonObject;
}

export class Branch implements PositionHolder {
  readonly scope: BranchScope;
  position: Position;

  constructor(scope: BranchScope, position: Position) {
    this.scope = scope;
    this.position = position;
  }

  get state(): State {
    const state = this.scope.machine.states.get(this.position.state);
    // Executions keep the definition they started with, so this is damage and no upgrade.
    if (!state) throw new StatesError("States.Runtime", `There is no state '${this.position.state}'.`);
    return state;
  }

  setActivity(activity: Activity | null): void {
    this.position = { ...this.position, activity };
  }

  toJSON(): Position {
    return this.position;
  }

  /** What the expressions of the current state see. */
  evaluationScope(context: ExecutionContext, extra: ExtraBindings, evaluationFailed: () => void): EvaluationScope {
    const { position, scope } = this;
    const mapItem = extra.mapItem ?? scope.mapItem;
    return {
      stateName: position.state,
      enteredEvent: position.enteredEvent,
      evaluationFailed,
      bindings: {
        ...scope.outerVariables,
        ...position.variables,
        states: {
          input: position.input,
          ...(extra.result === undefined ? {} : { result: extra.result }),
          ...(extra.errorOutput === undefined ? {} : { errorOutput: extra.errorOutput }),
          context: {
            ...context,
            State: {
              Name: position.state,
              EnteredTime: new Date(position.enteredAt).toISOString(),
              RetryCount: position.retries.reduce((sum, count) => sum + count, 0),
            },
            ...(extra.taskToken === undefined ? {} : { Task: { Token: extra.taskToken } }),
            ...(mapItem === null ? {} : { Map: { Item: mapItem } }),
          },
        },
      },
    };
  }
}
