import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";

const vitest = path.join(path.dirname(createRequire(import.meta.url).resolve("vitest/package.json")), "vitest.mjs");
const reporter = fileURLToPath(new URL("./summary-reporter.ts", import.meta.url));

/** A run of its own over one test file. */
async function run(file: string): Promise<{ last: string | undefined; code: number }> {
  const root = await mkdtemp(path.join(tmpdir(), "mango-summary-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  await writeFile(path.join(root, "some.test.js"), file);
  const args = [vitest, "run", "--root", root, "--globals", "--reporter=default", `--reporter=${reporter}`];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  return { last: output.trimEnd().split("\n").at(-1), code };
}

describe("the last line of a run", () => {
  test.each([
    [
      "what passed and failed",
      `test("a", () => {}); test("b", () => { throw new Error("no") });`,
      "1 passed, 1 failed",
      1,
    ],
    [
      "what was skipped, if anything was",
      `test("a", () => {}); test.skip("b", () => {});`,
      "1 passed, 0 failed, 1 skipped",
      0,
    ],
    ["a file that does not load as a failure", `import "./nowhere.js"; test("a", () => {});`, "0 passed, 1 failed", 1],
    [
      "an error outside of the tests as a failure",
      `test("a", () => { Promise.reject(new Error("unheard")); });`,
      "1 passed, 1 failed",
      1,
    ],
  ])("counts %s", async (_case, file, last, code) => {
    expect(await run(file)).toEqual({ last, code });
  });
});
