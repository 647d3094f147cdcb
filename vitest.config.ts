import { defaultExclude, defineConfig } from "vitest/config";
import LongestFirst from "./test/longest-first.ts";

const rooms = "{shared,local,localstack,worker,functions,infra,statemachines}";

export default defineConfig({
  test: {
    // Unit tests beside their source; under test/ what looks at the product from outside.
    include: [`${rooms}/**/*.test.ts`, "test/**/*.test.ts"],
    exclude: [...defaultExclude, "**/cdk.out/**"],
    globalSetup: ["test/postgres-global-setup.ts"],
    // Processes, not threads: what a test leaves running, and the signals it sends, stay its own.
    pool: "forks",
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./test/summary-reporter.ts"],
    // The functions' metrics go to standard output.
    env: { POWERTOOLS_SERVICE_NAME: "mango-test", POWERTOOLS_METRICS_DISABLED: "true" },
    // Databases, servers and child processes start inside tests and hooks; a busy machine is not a failure.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // By itself, one second.
    expect: { poll: { timeout: 20_000, interval: 20 } },
    coverage: {
      provider: "v8",
      include: ["{shared,local,worker,functions,infra}/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.testsuite.ts", "**/cdk.out/**"],
      reporter: ["text-summary"],
    },
  },
});
