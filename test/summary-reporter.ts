import { writeSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

/**
 * Ends the run with one line that people and scripts can read: `N passed, N failed`.
 *
 * It is written while the process exits, because everything else has been said by then: the coverage table, and errors
 * of the teardown, both come after the last hook that a reporter has. The exit code is settled then too, so a run that
 * failed outside its tests (a file that does not load, an unhandled error, coverage below its threshold) shows here as
 * a failure instead of as "0 failed".
 */
export default class SummaryReporter implements Reporter {
  readonly #counts = { passed: 0, failed: 0, skipped: 0 };

  onInit(): void {
    process.once("exit", (code) => writeSync(process.stdout.fd, `${this.line(code)}\n`));
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    Object.assign(this.#counts, { passed: 0, failed: 0, skipped: 0 });
    for (const module of modules)
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        // A test that never ended, as in a run cut short, has not shown anything.
        this.#counts[state === "pending" ? "failed" : state]++;
      }
  }

  /** The line for a run that exits with this code. */
  line(exitCode: number): string {
    const { passed, failed, skipped } = this.#counts;
    const counted = `${passed} passed, ${exitCode === 0 ? failed : Math.max(failed, 1)} failed`;
    return skipped > 0 ? `${counted}, ${skipped} skipped` : counted;
  }
}
