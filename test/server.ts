import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { startBundledWorker } from "../local/bundled-worker.ts";
import { type Embedded, startEmbedded } from "../local/embedded.ts";
import type { Model } from "../shared/model/model.ts";
import { offlineModel } from "../shared/model/offline/offline-model.ts";
import type { Log } from "../shared/ports/log.ts";
import type { ToolExecutor } from "../shared/turns/tool-executor.ts";
import { checkedFetch } from "./contract/answer-check.ts";
import { type TestDatabase, testDatabase } from "./database.ts";
import { removeFolder } from "./remove-folder.ts";

export const API_KEY = "sk-mango-test-key-000000";

/** Tests run their own commands. */
export const UNCONFINED = { launcher: "process", network: "none", allowProcess: true } as const;

/** What the server logged, so that a test can see what an operator would. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface TestServer extends Embedded {
  readonly database: TestDatabase;
  readonly client: Anthropic;
  readonly logs: readonly LogLine[];
  /** Where the worker gives each session a folder. */
  readonly workspaceRoot: string;
  /** A request with the test key and a JSON body, unless the init says otherwise. */
  request(
    path: string,
    init?: RequestInit & { readonly json?: unknown; readonly key?: string | null },
  ): Promise<Response>;
  /** Ends the server, keeps the database: what a restart finds. */
  stopServer(): Promise<void>;
  close(): Promise<void>;
}

export interface TestServerOptions {
  readonly model?: Model;
  readonly tools?: ToolExecutor;
  /** Starts the real worker as a process; its tools run beside it, whatever else the machine could do. */
  readonly worker?: boolean;
  /** The database of a server that was stopped. */
  readonly database?: TestDatabase;
}

/** The whole embedded edition on a database of its own, over real HTTP, with the official client pointed at it. */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const database = options.database ?? (await testDatabase());
  const logs: LogLine[] = [];
  const write =
    (level: LogLine["level"]) =>
    (message: string, fields: object = {}) => {
      logs.push({ level, message, fields: { ...fields } });
    };
  const log: Log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const embedded = await startEmbedded({
    connectionString: database.connectionString,
    model: options.model ?? offlineModel(),
    host: "127.0.0.1",
    port: 0,
    apiKey: API_KEY,
    log,
    ...(options.tools === undefined ? {} : { tools: options.tools }),
  });
  const workspaceRoot = await mkdtemp(path.join(tmpdir(), "mango-workspaces-"));
  const worker = options.worker
    ? startBundledWorker({ ...embedded, workspaceRoot, tools: UNCONFINED, logFormat: "json", log, silent: true })
    : undefined;
  const stopServer = async () => {
    await worker?.stop();
    await embedded.stop();
    await removeFolder(workspaceRoot);
  };
  return {
    ...embedded,
    database,
    logs,
    workspaceRoot,
    client: new Anthropic({ baseURL: embedded.url, apiKey: API_KEY, maxRetries: 0, fetch: checkedFetch }),
    request(target, { json, key = API_KEY, ...init } = {}) {
      const headers = new Headers(init.headers);
      if (key !== null) headers.set("x-api-key", key);
      if (json !== undefined) headers.set("content-type", "application/json");
      const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
      return checkedFetch(`${embedded.url}${target}`, { ...body, ...init, headers });
    },
    stopServer,
    async close() {
      await stopServer();
      await database.close();
    },
  };
}
