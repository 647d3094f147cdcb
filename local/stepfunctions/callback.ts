/** The wait of a task with a token: for its answer, its deadline, its heartbeats, and for its function to fail. */

import type { Branch } from "./branch.ts";
import type { Execution } from "./execution.ts";
import { Halted, type OpenWait } from "./halt.ts";
import type { Json } from "./json.ts";
import type { CallbackActivity, TaskAnswer } from "./position.ts";
import { StatesError, timedOut } from "./states-error.ts";

export type TaskOutcome = { readonly result: Json } | StatesError;

/** `invoke` is called unless the function has returned already. The branch's activity is the callback's. */
export function holdCallback(
  execution: Execution,
  branch: Branch,
  invoke: () => Promise<TaskOutcome | undefined>,
): Promise<TaskOutcome> {
  const { activity } = branch.position;
  if (activity?.kind !== "callback") throw new StatesError("States.Runtime", "The state has no task token.");
  if (activity.answer !== null) return Promise.resolve(outcomeOf(activity.answer));
  return branch.scope.halt.wait<TaskOutcome>(activity.submitted, (wait) => {
    const callback = new OpenCallback(execution, branch, wait);
    const release = execution.environment.tokens.hold(activity.token, callback);
    callback.arm();
    if (!activity.submitted) void callback.submit(invoke);
    return () => {
      release();
      callback.disarm();
    };
  });
}

class OpenCallback {
  readonly #execution: Execution;
  readonly #branch: Branch;
  readonly #wait: OpenWait<TaskOutcome>;
  #disarm: (() => void)[] = [];

  constructor(execution: Execution, branch: Branch, wait: OpenWait<TaskOutcome>) {
    this.#execution = execution;
    this.#branch = branch;
    this.#wait = wait;
  }

  /** Null when the wait is over and the position belongs to what came after. */
  get #activity(): CallbackActivity | null {
    const { activity } = this.#branch.position;
    return this.#wait.open && activity?.kind === "callback" ? activity : null;
  }

  #update(change: Partial<CallbackActivity>): void {
    const activity = this.#activity;
    if (activity === null) return;
    this.#branch.setActivity({ ...activity, ...change });
    this.#execution.markUnsaved();
  }

  arm(): void {
    const { clock } = this.#execution.environment;
    const { deadline, heartbeatDeadline } = this.#activity ?? {};
    this.disarm();
    if (typeof deadline === "number") {
      this.#disarm.push(clock.at(deadline, () => this.#wait.settle(timedOut("timeout"))));
    }
    if (typeof heartbeatDeadline === "number") {
      this.#disarm.push(clock.at(heartbeatDeadline, () => this.#wait.settle(timedOut("heartbeat"))));
    }
  }

  disarm(): void {
    for (const cancel of this.#disarm.splice(0)) cancel();
  }

  async submit(invoke: () => Promise<TaskOutcome | undefined>): Promise<void> {
    try {
      const outcome = await invoke();
      if (outcome instanceof StatesError) return this.#wait.settle(outcome);
      if (!this.#wait.open) return;
      // TaskSubmitted
      this.#execution.count(1);
      this.#update({ submitted: true });
      await this.#execution.saved();
      this.#wait.park();
    } catch (failure) {
      if (failure instanceof StatesError) this.#wait.settle(failure);
      else this.#wait.fail(failure);
    }
  }

  async answer(answer: TaskAnswer): Promise<boolean> {
    if (this.#activity === null) return false;
    this.#update({ answer });
    const saved = this.#execution.saved();
    // The branch goes on while its answer is written: what it does next is written after it.
    this.#wait.settle(outcomeOf(answer));
    await saved;
    return true;
  }

  async heartbeat(): Promise<void> {
    const { heartbeatSeconds } = this.#activity ?? {};
    if (typeof heartbeatSeconds !== "number") return;
    this.#update({ heartbeatDeadline: this.#execution.environment.clock.now() + heartbeatSeconds * 1_000 });
    this.arm();
    await this.#execution.saved().catch((reason: unknown) => {
      if (!(reason instanceof Halted)) throw reason;
    });
  }
}

function outcomeOf(answer: TaskAnswer): TaskOutcome {
  return "output" in answer ? { result: answer.output } : new StatesError(answer.error, answer.cause, { kind: "task" });
}
