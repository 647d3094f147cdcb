import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { CommanderError } from "commander";
import type { Log } from "../shared/ports/log.ts";
import { errorLabel, isFatal, statusOf } from "./api-client.ts";
import { type RunSettings, workerCommand } from "./command.ts";
import { NoKeyFile, takeEnvironmentKey } from "./environment-key.ts";
import { EnvironmentWorker } from "./environment-worker.ts";
import { EXIT } from "./exit-codes.ts";
import { chooseLauncher, NoLauncher } from "./sandbox/choose-launcher.ts";
import { ALLOW_PROCESS, type Launcher } from "./sandbox/launcher.ts";
import { jsonLog, textLog } from "./worker-log.ts";

async function run(settings: RunSettings): Promise<void> {
  const log = makeLog(settings);
  const stop = new AbortController();
  stopOnSignals(stop, log);
  if (settings.exitWithParent) stopWhenInputCloses(stop, log);
  mkdirSync(settings.workspaceRoot, { recursive: true, mode: 0o700 });

  const launcher = await findLauncher(settings, log);
  if (launcher === null) {
    process.exitCode = EXIT.noLauncher;
    process.stdin.destroy();
    return;
  }
  const { readyFile, limits } = settings;
  const worker = new EnvironmentWorker({
    ...settings,
    launcher,
    diskBytes: limits.diskBytes,
    log,
    onReady: () => {
      log.info("ready", { environment: settings.environmentId, url: settings.url, launcher: launcher.name });
      if (readyFile !== null) writeFileSync(readyFile, `${process.pid}\n`, { mode: 0o600 });
    },
  });
  try {
    await worker.run(stop.signal);
    log.info("stopped");
    process.exitCode = EXIT.clean;
  } catch (error) {
    log.error(refusalMessage(error, settings), { error: errorLabel(error) });
    const status = statusOf(error);
    process.exitCode = status === 401 || status === 403 ? EXIT.refused : EXIT.failed;
  } finally {
    if (readyFile !== null) rmSync(readyFile, { force: true });
    process.stdin.destroy();
  }
}

async function findLauncher(settings: RunSettings, log: Log): Promise<Launcher | null> {
  const allowProcess = process.env[ALLOW_PROCESS] === "1";
  try {
    const launcher = await chooseLauncher({ ...settings, wanted: settings.launcher, allowProcess });
    if (launcher.name === "process") log.warn("tools run beside the worker, isolated from nothing");
    else log.info("tools run in a sandbox", { launcher: launcher.name, network: settings.network });
    return launcher;
  } catch (error) {
    if (!(error instanceof NoLauncher)) throw error;
    log.error(error.message);
    return null;
  }
}

function refusalMessage(error: unknown, { environmentId }: RunSettings): string {
  const status = statusOf(error);
  if (status === 401 || status === 403) return `the server refuses the environment key for ${environmentId}`;
  if (status === 404) return `the server knows no environment ${environmentId}`;
  return isFatal(error) ? "the server refuses to give out work" : "the worker failed";
}

function makeLog(settings: RunSettings): Log {
  // A parent that dies takes its end of the pipe along; that must not cost the results of running calls.
  process.stderr.on("error", () => {});
  const write = (line: string) => process.stderr.write(line);
  if (settings.logFormat === "json") return jsonLog(write, settings);
  return textLog(write, { debug: settings.debug, colours: process.stderr.hasColors?.() ?? false });
}

/** The first signal stops with care, the second at once; tools die with the process either way. */
function stopOnSignals(stop: AbortController, log: Log): void {
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      if (stop.signal.aborted) process.exit(EXIT.failed);
      log.info("stopping", { signal: name });
      stop.abort();
    });
  }
}

function stopWhenInputCloses(stop: AbortController, log: Log): void {
  const onClose = () => {
    if (stop.signal.aborted) return;
    log.info("stopping", { why: "the parent has gone" });
    stop.abort();
  };
  process.stdin.once("end", onClose).once("close", onClose).once("error", onClose).resume();
}

try {
  await workerCommand(takeEnvironmentKey(), run).parseAsync();
} catch (error) {
  if (error instanceof NoKeyFile) process.stderr.write(`error: ${error.message}\n`);
  else if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error instanceof CommanderError && error.exitCode === 0 ? EXIT.clean : EXIT.usage;
}
