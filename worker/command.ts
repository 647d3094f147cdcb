import { resolve } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";
import { DEFAULT_CONCURRENCY } from "./environment-worker.ts";
import { DEFAULT_DOCKER_IMAGE } from "./sandbox/docker-launcher.ts";
import { LAUNCHERS, type LauncherName } from "./sandbox/launcher.ts";
import { DEFAULT_LIMITS, type Limits } from "./sandbox/limits.ts";

export interface RunSettings {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
  readonly launcher: LauncherName | "auto";
  readonly network: "none" | "host";
  readonly dockerImage: string;
  readonly limits: Limits;
  readonly workspaceRoot: string;
  readonly maxIdleMs: number;
  readonly concurrency: number;
  readonly blockMs: number;
  readonly drainMs: number;
  readonly allowEnv: readonly string[];
  readonly logFormat: "text" | "json";
  readonly debug: boolean;
  readonly readyFile: string | null;
  readonly exitWithParent: boolean;
}

const EXIT_CODES = `
Exit codes:
  0  stopped by a signal; running calls were answered, items given back
  1  failure: start it again
  2  wrong usage
  3  the server refuses the environment key
  4  no launcher that works and may be used`;

interface RunFlags {
  readonly url: string;
  readonly environmentId: string;
  readonly launcher: LauncherName | "auto";
  readonly network: "none" | "host";
  readonly dockerImage: string;
  readonly cpuTime: number;
  readonly memory: number;
  readonly processes: number;
  readonly fileSize: number;
  readonly tmpSize: number;
  readonly disk: number;
  readonly workspaceRoot: string;
  readonly maxIdle: number;
  readonly concurrency: number;
  readonly block: number;
  readonly drain: number;
  readonly allowEnv: readonly string[];
  readonly logFormat: "text" | "json";
  readonly debug?: true;
  readonly readyFile?: string;
  readonly exitWithParent?: true;
}

/**
 * The command line. Throws commander's error on a wrong one; `run` gets the settings of a right one.
 *
 * `environmentKey` was taken from wherever it was given before this is called: see `takeEnvironmentKey`.
 */
export function workerCommand(environmentKey: string | null, run: (settings: RunSettings) => Promise<void>) {
  const program = new Command("mango-worker")
    .description("Runs the tools of a self-hosted environment on this machine.")
    .exitOverride()
    .addHelpText("after", EXIT_CODES);
  program
    .command("run")
    .description("Poll for work and serve sessions until stopped (SIGTERM, SIGINT).")
    .exitOverride()
    .addHelpText("after", EXIT_CODES)
    .addOption(new Option("--url <url>", "the server").env("MANGO_URL").argParser(url).makeOptionMandatory())
    .addOption(new Option("--environment-id <id>", "the environment").env("MANGO_ENVIRONMENT_ID").makeOptionMandatory())
    .option("--environment-key <key>", "its key; better in MANGO_ENVIRONMENT_KEY, where no other user sees it")
    .option("--environment-key-file <path>", "a file that holds the key")
    .addOption(
      new Option("--launcher <name>", "where tools run; auto is bwrap, which must work unless process is allowed")
        .choices(["auto", ...LAUNCHERS])
        .default("auto"),
    )
    .addOption(
      new Option("--network <which>", "the tools' network: none, or this host's (bwrap, docker)")
        .choices(["none", "host"])
        .default("none"),
    )
    .option(
      "--docker-image <image>",
      "what containers are made of: bash, and node 24 on the path",
      DEFAULT_DOCKER_IMAGE,
    )
    .option("--workspace-root <path>", "where each session gets a directory", ".mango/workspaces")
    .addOption(durationOption("--max-idle", "how long to stay with an idle session; 0 is for ever", "60s"))
    .option("--concurrency <n>", "sessions served at once", positive, DEFAULT_CONCURRENCY)
    .addOption(durationOption("--block", "how long the server may hold a poll", "20s"))
    .addOption(durationOption("--drain", "how long a stop may take to deliver the results of running calls", "10s"))
    .addOption(
      new Option("--allow-env <name...>", "variables that tools may see besides the usual ones").default([], "none"),
    )
    .addOption(durationOption("--cpu-time", "processor time of one program", `${DEFAULT_LIMITS.cpuSeconds}s`))
    .option("--memory <size>", "private memory of one program, or of a container", size, DEFAULT_LIMITS.memoryBytes)
    .option("--processes <n>", "processes and threads of one session", positive, DEFAULT_LIMITS.processes)
    .option("--file-size <size>", "the largest file", size, DEFAULT_LIMITS.fileBytes)
    .option("--tmp-size <size>", "/tmp, which is memory", size, DEFAULT_LIMITS.tmpBytes)
    .option("--disk <size>", "what a session's directory may hold", size, DEFAULT_LIMITS.diskBytes)
    .addOption(new Option("--log-format <format>", "how to log").choices(["text", "json"]).default("text"))
    .option("--debug", "log more")
    .option("--ready-file <path>", "written once the server has accepted the key")
    .option("--exit-with-parent", "stop when standard input closes")
    .action(async (flags: RunFlags, command: Command) => {
      if (environmentKey === null) command.error("error: set MANGO_ENVIRONMENT_KEY (or pass --environment-key-file)");
      await run({
        url: flags.url,
        environmentId: flags.environmentId,
        environmentKey: environmentKey ?? "",
        launcher: flags.launcher,
        network: flags.network,
        dockerImage: flags.dockerImage,
        limits: {
          cpuSeconds: Math.max(1, Math.ceil(flags.cpuTime / 1_000)),
          memoryBytes: flags.memory,
          processes: flags.processes,
          fileBytes: flags.fileSize,
          tmpBytes: flags.tmpSize,
          diskBytes: flags.disk,
        },
        workspaceRoot: resolve(flags.workspaceRoot),
        maxIdleMs: flags.maxIdle,
        concurrency: flags.concurrency,
        blockMs: flags.block,
        drainMs: flags.drain,
        allowEnv: flags.allowEnv,
        logFormat: flags.logFormat,
        debug: flags.debug ?? false,
        readyFile: flags.readyFile === undefined ? null : resolve(flags.readyFile),
        exitWithParent: flags.exitWithParent ?? false,
      });
    });
  return program;
}

function durationOption(flag: string, description: string, preset: string): Option {
  return new Option(`${flag} <duration>`, description).argParser(duration).default(duration(preset), preset);
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

function duration(text: string): number {
  if (text === "0") return 0;
  const [, amount, unit] = /^(\d{1,6})(ms|s|m|h)$/.exec(text) ?? [];
  const ms = Number(amount) * (UNITS[unit ?? ""] ?? Number.NaN);
  // Node's timers hold no more.
  if (!(ms <= 2_147_483_647)) throw new InvalidArgumentError("Write a duration such as 500ms, 60s, 5m or 1h, or 0.");
  return ms;
}

const SIZES: Readonly<Record<string, number>> = { k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

function size(text: string): number {
  const [, amount, unit] = /^([1-9]\d{0,6})([kmg])$/.exec(text) ?? [];
  const bytes = Number(amount) * (SIZES[unit ?? ""] ?? Number.NaN);
  if (Number.isNaN(bytes)) throw new InvalidArgumentError("Write a size such as 500k, 256m or 4g.");
  return bytes;
}

function positive(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError("Write a whole number from 1 to 9999.");
  return Number(text);
}

function url(text: string): string {
  const parsed = URL.parse(text);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw new InvalidArgumentError("Write an http(s) address.");
  return text.replace(/\/+$/, "");
}
