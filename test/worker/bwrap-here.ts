/** Whether tests that need bubblewrap can run here. In CI they must: a machine without it fails, and does not skip. */
import type { TestContext } from "vitest";
import { bwrapLauncher } from "../../worker/sandbox/bwrap-launcher.ts";
import { problemOf } from "../../worker/sandbox/choose-launcher.ts";
import { DEFAULT_LIMITS } from "../../worker/sandbox/limits.ts";

const problem = await problemOf(bwrapLauncher({ limits: DEFAULT_LIMITS, network: "none" }));

const reason = `bubblewrap does not work here (${problem}): apt-get install bubblewrap ripgrep`;
// The reporter counts what is skipped, and keeps the reason to itself.
if (problem !== null) process.stderr.write(`Tests of the sandbox are skipped: ${reason}\n`);

/** For `beforeEach`. */
export function needBwrap(context: TestContext): void {
  if (problem === null) return;
  if (process.env["CI"]) throw new Error(reason);
  context.skip(reason);
}
