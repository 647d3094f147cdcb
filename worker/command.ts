import { resolve } from "node:path";
import { Command, InvalidArgumentError, Option } from "commander";

export interface RunSettings {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey: string;
  /** The key came as an argument, where every user of the host can read it. */
  readonly keyInArguments: boolean;
  readonly workspaceRoot: string;
  readonly maxIdleMs: number;
  readonly concurrency: number;
  readonly blockMs: number;
  readonly allowEnv: readonly string[];
  readonly logFormat: "text" | "json";
  readonly debug: boolean;
  readonly readyFile: string | null;
  readonly exitWithParent: boolean;
}

export const EXIT = { clean: 0, failed: 1, usage: 2, refused: 3 } as const;

interface RunFlags {
  readonly url: string;
  readonly environmentId: string;
  readonly environmentKey?: string;
  readonly workspaceRoot: string;
  readonly maxIdle: number;
  readonly concurrency: number;
  readonly block: number;
  readonly allowEnv: readonly string[];
  readonly logFormat: "text" | "json";
  readonly debug?: true;
  readonly readyFile?: string;
  readonly exitWithParent?: true;
}

/** The command line. Throws commander's error on a wrong one; `run` gets the settings of a right one. */
export function workerCommand(keyFromEnvironment: string | null, run: (settings: RunSettings) => Promise<void>) {
  const program = new Command("mango-worker")
    .description("Runs the tools of a self-hosted environment on this machine.")
    .exitOverride()
    .addHelpText("after", "\nExit codes: 0 clean stop, 1 failure, 2 wrong usage, 3 credentials refused.");
  program
    .command("run")
    .description("Poll for work and serve sessions until stopped (SIGTERM, SIGINT).")
    .exitOverride()
    .addOption(new Option("--url <url>", "the server").env("MANGO_URL").argParser(url).makeOptionMandatory())
    .addOption(new Option("--environment-id <id>", "the environment").env("MANGO_ENVIRONMENT_ID").makeOptionMandatory())
    .option("--environment-key <key>", "its key; better given as MANGO_ENVIRONMENT_KEY, unseen by other users")
    .option("--workspace-root <path>", "where each session gets a directory", ".mango/workspaces")
    .addOption(durationOption("--max-idle", "how long to stay with an idle session; 0 is for ever", "60s"))
    .option("--concurrency <n>", "sessions served at once", positive, 8)
    .addOption(durationOption("--block", "how long the server may hold a poll", "20s"))
    .addOption(
      new Option("--allow-env <name...>", "variables that tools may see besides the usual ones").default([], "none"),
    )
    .addOption(new Option("--log-format <format>", "how to log").choices(["text", "json"]).default("text"))
    .option("--debug", "log more")
    .option("--ready-file <path>", "written once the server has accepted the key")
    .option("--exit-with-parent", "stop when standard input closes")
    .action(async (flags: RunFlags, command: Command) => {
      const environmentKey = flags.environmentKey ?? keyFromEnvironment;
      if (!environmentKey) command.error("error: set MANGO_ENVIRONMENT_KEY (or pass --environment-key)");
      await run({
        url: flags.url,
        environmentId: flags.environmentId,
        environmentKey: environmentKey ?? "",
        keyInArguments: flags.environmentKey !== undefined,
        workspaceRoot: resolve(flags.workspaceRoot),
        maxIdleMs: flags.maxIdle,
        concurrency: flags.concurrency,
        blockMs: flags.block,
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
