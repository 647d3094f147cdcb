import type { Branch } from "./branch.ts";
import type { Execution } from "./execution.ts";

/** Parks the branch until the instant; at once when it has passed. */
export function sleepUntil(execution: Execution, branch: Branch, instant: number): Promise<void> {
  return branch.scope.halt.wait<void>(true, (wait) => execution.environment.clock.at(instant, () => wait.settle()));
}
