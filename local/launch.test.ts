import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const lock = { "": { name: "project" }, "node_modules/tool": { version: "1.0.0", bin: { tool: "cli.js" } } };

let project: string;
beforeEach(async () => {
  project = await realpath(await mkdtemp(path.join(tmpdir(), "mango-launch-")));
  await cp(fileURLToPath(new URL("./launch.mjs", import.meta.url)), path.join(project, "local/launch.mjs"));
  await put("package.json", { type: "module" });
  await put("package-lock.json", { packages: lock });
  // Stands in for npm: says what it was asked, and leaves what an installation leaves.
  await put(
    "npm.js",
    `import fs from "node:fs";
     console.log("npm", process.argv.slice(2).join(" "));
     if (process.env.NPM_FAILS) process.exit(7);
     fs.mkdirSync("node_modules", { recursive: true });
     fs.copyFileSync("package-lock.json", "node_modules/.package-lock.json");`,
  );
  await put(
    "say.ts",
    `const said: string[] = process.argv.slice(2); console.log("said", ...said); process.exitCode = 5;`,
  );
});
afterEach(async () => {
  await rm(project, { recursive: true, force: true });
});

async function put(file: string, content: unknown) {
  await mkdir(path.dirname(path.join(project, file)), { recursive: true });
  await writeFile(path.join(project, file), typeof content === "string" ? content : JSON.stringify(content));
}

const installed = (packages: unknown = lock) => put("node_modules/.package-lock.json", { packages });

function launch(args: string[], options: { env?: Record<string, string>; node?: string[] } = {}) {
  const command = [...(options.node ?? []), path.join(project, "local/launch.mjs"), ...args];
  const env = { ...process.env, npm_execpath: path.join(project, "npm.js"), ...options.env };
  const child = spawn(process.execPath, command, { cwd: "/", env, stdio: ["ignore", "pipe", "pipe"] });
  const outcome = Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]).then(
    ([stdout, stderr, [code, signal]]) => ({ stdout, stderr, code, signal }),
  );
  return { child, outcome };
}

/** Takes away what lets Node turn into another program, as on a Node before 22.15. */
const older = ["--import", "data:text/javascript,delete process.execve"];

describe("launching", () => {
  test("installs what is missing, says why, and runs the script with its arguments and exit code", async () => {
    const { stdout, stderr, code } = await launch(["say.ts", "a", "b c"]).outcome;

    expect(stderr).toContain("the dependencies are not installed yet");
    expect(stdout).toBe("npm ci --loglevel=error --include=optional\nsaid a b c\n");
    expect(code).toBe(5);
  });

  test("installs nothing when everything is there", async () => {
    await installed();

    const { stdout, stderr } = await launch(["say.ts"]).outcome;

    expect({ stdout, stderr }).toEqual({ stdout: "said\n", stderr: "" });
  });

  test.each([
    ["another version", { "node_modules/tool": { version: "0.9.0" } }, "tool 0.9.0 to 1.0.0"],
    ["a package less", {}, "tool is missing"],
  ])("installs again when the lock file asks for %s than is there", async (_case, present, reason) => {
    await installed(present);

    const { stdout, stderr } = await launch(["say.ts"]).outcome;

    expect(stderr).toContain(`the dependencies have changed (${reason})`);
    expect(stdout).toMatch(/^npm ci/);
  });

  test("does not miss packages of other platforms, nor development's for a script", async () => {
    const more = {
      "node_modules/mac-only": { version: "1.0.0", optional: true },
      "node_modules/lint": { version: "1.0.0", dev: true },
    };
    await put("package-lock.json", { packages: { ...lock, ...more } });
    await installed();

    const { stdout } = await launch(["say.ts"]).outcome;

    expect(stdout).toBe("said\n");
  });

  test("stops with npm's exit code when npm fails", async () => {
    const { stdout, stderr, code } = await launch(["say.ts"], { env: { NPM_FAILS: "1" } }).outcome;

    expect(stderr).toContain("npm ci failed (exit code 7)");
    expect(stdout).not.toContain("said");
    expect(code).toBe(7);
  });

  test("runs a package's command in the project", async () => {
    await installed();
    await put("node_modules/tool/cli.js", `console.log("tool in", process.cwd(), ...process.argv.slice(2))`);

    const { stdout } = await launch(["--bin", "tool", "x"]).outcome;

    expect(stdout).toBe(`tool in ${project} x\n`);
  });

  test("names a command that no package has", async () => {
    await installed();

    const { stderr, code } = await launch(["--bin", "toll"]).outcome;

    expect(stderr).toBe('No installed package has the command "toll".\n');
    expect(code).toBe(1);
  });

  test.each([
    ["as this process", []],
    ["as a child", older],
  ])("passes a signal on, once, and the exit code back: %s", async (_case, node) => {
    await installed();
    await put(
      "serve.ts",
      `let signals = 0;
       process.on("SIGTERM", () => { signals++; setImmediate(() => { console.log("signals", signals); process.exit(9); }); });
       setInterval(() => {}, 60_000);
       console.log("ready");`,
    );
    const { child, outcome } = launch(["serve.ts"], { node });
    await once(child.stdout, "data");

    child.kill("SIGTERM");

    const { stdout, code } = await outcome;
    expect(stdout).toContain("signals 1\n");
    expect(code).toBe(9);
  });

  test.each([
    ["as this process", []],
    ["as a child", older],
  ])("ends by the signal that ended the program: %s", async (_case, node) => {
    await installed();
    await put("fall.ts", `process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 60_000);`);

    const { signal } = await launch(["fall.ts"], { node }).outcome;

    expect(signal).toBe("SIGKILL");
  });
});
