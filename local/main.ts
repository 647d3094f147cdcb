import path from "node:path";
import { fileURLToPath } from "node:url";
import { messagesModel } from "../shared/model/messages-model.ts";
import type { Model } from "../shared/model/model.ts";
import { offlineModel } from "../shared/model/offline/offline-model.ts";
import { noTools, type ToolExecutor } from "../shared/turns/tool-executor.ts";
import { publicNetwork } from "../shared/web-fetch/dial.ts";
import { fetchPage } from "../shared/web-fetch/fetch-page.ts";
import { managedWebFetch } from "../shared/web-fetch/managed-web-fetch.ts";
import { startBundledWorker } from "./bundled-worker.ts";
import { claimDataDir, DataDirError } from "./data-dir.ts";
import { leaveAddress } from "./database-address.ts";
import { startEmbedded } from "./embedded.ts";
import { greeting } from "./greeting.ts";
import { localLog } from "./local-log.ts";
import { startPostgres } from "./postgres/postgres.ts";
import { PostgresError } from "./postgres/postgres-error.ts";
import { readSettings, type Settings, SettingsError, settingsTable } from "./settings.ts";
import { onStopSignal } from "./stop-signal.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));
/** Pause between the offline model's words: slow enough to see that they stream, fast enough not to wait for. */
const OFFLINE_CHUNK_MS = 8;

const HELP = `Usage: npm start [-- --help]

Runs Mango on this machine: PostgreSQL, the API, the turns and a worker. Ctrl-C ends all of them.
Settings are environment variables:

${settingsTable()}
`;

async function main(): Promise<void> {
  if (process.argv.includes("--help")) {
    process.stdout.write(HELP);
    return;
  }
  const settings = readSettings(process.env, PROJECT);
  const log = localLog(settings.log);
  await requireLauncher(settings);
  const claim = await claimDataDir(settings.dataDir);
  // What was started, newest last; ended in the opposite order.
  const started: (() => Promise<unknown>)[] = [() => claim.release()];
  let ending: Promise<void> | undefined;
  const end = (code: number): Promise<void> => {
    ending ??= (async () => {
      for (const stop of started.reverse()) {
        await stop().catch((error: unknown) =>
          log.error("Something did not stop cleanly.", { error: (error as Error).name }),
        );
      }
      process.exit(code);
    })();
    return ending;
  };
  onStopSignal(() => void end(0));

  try {
    let connectionString = settings.databaseUrl;
    if (connectionString === null) {
      const postgres = await startPostgres({ dataDir: path.join(settings.dataDir, "postgres"), log });
      started.push(() => postgres.stop());
      void postgres.lost.then((error) => {
        log.error(error.message);
        void end(1);
      });
      connectionString = postgres.connectionString;
    }
    const embedded = await startEmbedded({
      connectionString,
      model: modelOf(settings),
      tools: toolsOf(settings),
      host: settings.host,
      port: settings.port,
      apiKey: settings.apiKey,
      auditRetentionDays: settings.auditRetentionDays,
      log,
    });
    started.push(() => embedded.stop());
    await claim.announce(embedded.url);
    started.push(await leaveAddress(settings, connectionString));
    if (settings.worker) {
      const worker = startBundledWorker({
        ...embedded,
        workspaceRoot: settings.workspaceRoot,
        tools: settings.tools,
        logFormat: settings.log,
        log,
      });
      started.push(() => worker.stop());
    }
    process.stdout.write(greeting(settings, embedded));
  } catch (error) {
    reportStartFailure(error, settings);
    await end(1);
  }
}

/**
 * A real model's tools must not find themselves without walls once the server is up; the worker checks again. Loaded
 * only then: the server itself has no use for the worker's code.
 *
 * @throws SettingsError that says what to install or to set.
 */
async function requireLauncher({ worker, tools }: Settings): Promise<void> {
  if (!worker || tools.allowProcess) return;
  const { chooseLauncher, NoLauncher } = await import("../worker/sandbox/choose-launcher.ts");
  const { DEFAULT_DOCKER_IMAGE: dockerImage } = await import("../worker/sandbox/docker-launcher.ts");
  const { DEFAULT_LIMITS: limits } = await import("../worker/sandbox/limits.ts");
  try {
    await chooseLauncher({ ...tools, wanted: tools.launcher, limits, dockerImage });
  } catch (error) {
    if (!(error instanceof NoLauncher)) throw error;
    throw new SettingsError(
      `Mango cannot start:\n  with a real model, ${error.message}; MANGO_WORKER=off starts without a worker`,
    );
  }
}

function modelOf(settings: Settings): Model {
  if (settings.model === null) {
    return offlineModel({ chunkDelayMs: OFFLINE_CHUNK_MS });
  }
  const { baseUrl, apiKey, auth, profile } = settings.model;
  return messagesModel({ baseURL: baseUrl, apiKey: apiKey ?? "none", auth, profile: profile ?? undefined });
}

function toolsOf({ webFetch }: Settings): ToolExecutor {
  if (webFetch === null) {
    return noTools;
  }
  const network = publicNetwork({ proxy: webFetch.proxy });
  return managedWebFetch({
    domains: webFetch.domains,
    fetchPage: (request, signal) => fetchPage(request, { network, signal }),
  });
}

/** What the operator can mend is said in a sentence; anything else is ours and keeps its stack. */
function reportStartFailure(error: unknown, settings?: Settings): void {
  const code = (error as { code?: string } | null)?.code;
  if (code === "EADDRINUSE" && settings !== undefined) {
    process.stderr.write(
      `Port ${settings.port} on ${settings.host} is taken. Set MANGO_PORT to another (0 takes any).\n`,
    );
  } else if (error instanceof SettingsError || error instanceof DataDirError || error instanceof PostgresError) {
    process.stderr.write(`${error.message}\n`);
  } else {
    process.stderr.write(
      `Mango could not start.\n${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
  }
}

main().catch((error: unknown) => {
  reportStartFailure(error);
  process.exitCode = 1;
});
