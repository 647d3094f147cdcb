/** Whether tests that need bubblewrap can run here. In CI they must: a machine without it fails, and does not skip. */
import type { TestContext } from "vitest";
import { bwrapLauncher } from "../../worker/sandbox/bwrap-launcher.ts";
import { problemOf } from "../../worker/sandbox/choose-launcher.ts";
import { DEFAULT_LIMITS } from "../../worker/sandbox/limits.ts";

const problem = await problemOf(bwrapLauncher({ limits: DEFAULT_LIMITS, network: "none" }));

/** For `beforeEach`. */
export function needBwrap(context: TestContext): void {
  if (problem === null) return;
  const reason = `bubblewrap does not work here (${problem}): apt-get install bubblewrap ripgrep`;
  if (process.env["CI"]) throw new Error(reason);
  context.skip(reason);
}
