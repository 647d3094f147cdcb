import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { SFNClient } from "@aws-sdk/client-sfn";
import { type ServerType, serve } from "@hono/node-server";
import { newSecret } from "../shared/contract/ids.ts";
import { migrate } from "../shared/db/migrate.ts";
import { createPool } from "../shared/db/pool.ts";
import { createApp } from "../shared/http/app.ts";
import { dropOldAnswers } from "../shared/http/idempotency.ts";
import { expireLeases } from "../shared/journal/provider-calls.ts";
import { memoryLiveChannel } from "../shared/live/memory-live-channel.ts";
import { memoryStreamPlaces, STREAMS_PER_KEY } from "../shared/live/memory-stream-places.ts";
import { STREAMS_PER_SESSION } from "../shared/live/stream-places.ts";
import type { Model } from "../shared/model/model.ts";
import { stepFunctionsOrchestrator } from "../shared/orchestration/step-functions.ts";
import { relayDue } from "../shared/outbox/relay.ts";
import type { Log } from "../shared/ports/log.ts";
import { LEASE_SECONDS, type Product } from "../shared/product.ts";
import { DEFAULT_PURGE, purgeDeleted } from "../shared/sessions/purge.ts";
import { executionLost, reconcile } from "../shared/turns/reconcile.ts";
import { STATE_HANDLERS, type StateName } from "../shared/turns/state-handlers.ts";
import { noTools, type ToolExecutor } from "../shared/turns/tool-executor.ts";
import { tendWork } from "../shared/work/upkeep.ts";
import { addEnvironmentKey, ensureWorkspace, revokeEnvironmentKeys, setApiKey } from "../shared/workspaces/keys.ts";
import type { TurnRef } from "../statemachines/turn-payload.ts";
import { ensureDefaultEnvironment, LOCAL_WORKSPACE } from "./default-environment.ts";
import { createStepFunctionsPool } from "./stepfunctions/pool.ts";
import { StepFunctions } from "./stepfunctions/step-functions.ts";

const STATE_MACHINE = "turn";
const DEFINITION = new URL("../statemachines/turn.asl.json", import.meta.url);
/** A wait of a day ends its execution; the answer starts the next. */
const PARK_SECONDS = "86400";
/** How often the relay looks for what a crash left behind. */
const RELAY_MS = 2000;
/** How long the last words of the streams may take. */
const FAREWELL_MS = 100;
/** How often the queue of work is tended: quiet sessions' workers, and leases that ran out where nobody polls. */
const WORK_MS = 15_000;
const RECONCILE_MS = 60_000;
/** A turn that has not moved for this long is looked at. */
const RECONCILE_AFTER_SECONDS = 600;
const PURGE_MS = 30_000;
/** How often what has outlived its use is dropped. */
const CLEANING_MS = 60 * 60 * 1000;

export interface EmbeddedOptions {
  readonly connectionString: string;
  readonly model: Model;
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly apiKey: string;
  readonly log: Log;
  readonly tools?: ToolExecutor;
  readonly leaseSeconds?: number;
  /** How long the journal of a deleted session is kept, in days. */
  readonly auditRetentionDays?: number;
  /** Wraps what the product is given from outside: the seam at which tests crash the process or count its calls. */
  readonly decorate?: (product: Product) => Product;
}

/** A running server. */
export interface Embedded {
  readonly url: string;
  readonly environmentId: string;
  /** A key for the bundled worker, made anew at every start; the ones before are revoked. */
  readonly environmentKey: string;
  readonly stepFunctions: StepFunctions;
  readonly product: Product;
  stop(): Promise<void>;
}

/** The whole product in this process, on a PostgreSQL that is already there. */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const { log } = options;
  await migrate({ connectionString: options.connectionString, log });
  const database = createPool({ connectionString: options.connectionString, max: 16, log });
  const statesPool = createStepFunctionsPool(options.connectionString);

  await ensureWorkspace(database, { id: LOCAL_WORKSPACE, name: "local" });
  await setApiKey(database, { workspaceId: LOCAL_WORKSPACE, name: "MANGO_API_KEY", secret: options.apiKey });
  const environmentId = await ensureDefaultEnvironment(database);
  const environmentKey = newSecret("sk-mango-env");
  await revokeEnvironmentKeys(database, { environmentId, name: "bundled worker" });
  await addEnvironmentKey(database, {
    workspaceId: LOCAL_WORKSPACE,
    environmentId,
    name: "bundled worker",
    secret: environmentKey,
  });

  // The interpreter calls the handlers, and the handlers' product calls the interpreter.
  const composed: { product?: Product } = {};
  const stepFunctions = new StepFunctions({
    pool: statesPool,
    log,
    stateMachines: [
      { name: STATE_MACHINE, definition: await readFile(DEFINITION, "utf8"), substitutions: substitutions() },
    ],
    onExecutionClosed: (execution) => {
      const product = composed.product;
      if (product !== undefined && execution.status !== "SUCCEEDED") {
        void executionLost(product, execution.input as unknown as TurnRef).catch((error: unknown) => {
          log.error("A lost execution could not be taken over; the reconciler tries again.", {
            error: (error as Error).name,
          });
        });
      }
    },
    invoke: async (functionName, payload, context) => {
      if (composed.product === undefined) {
        throw new Error("A state was entered before the product was composed.");
      }
      // JSON in, JSON out, as between Step Functions and Lambda: a handler without an answer answers null.
      return (await STATE_HANDLERS[functionName as StateName](composed.product, payload, context)) ?? null;
    },
  });
  const client = { current: undefined as SFNClient | undefined };
  const product = (options.decorate ?? ((plain: Product) => plain))({
    database,
    model: options.model,
    live: memoryLiveChannel(),
    streamPlaces: memoryStreamPlaces({ perKey: STREAMS_PER_KEY, perSession: STREAMS_PER_SESSION }),
    orchestrator: {
      start: (params) => orchestrator().start(params),
      find: (params) => orchestrator().find(params),
      release: (params) => orchestrator().release(params),
    },
    tools: options.tools ?? noTools,
    log,
    owner: `embedded:${randomUUID()}`,
    leaseSeconds: options.leaseSeconds ?? LEASE_SECONDS,
  });
  const orchestrator = () => {
    client.current ??= new SFNClient(stepFunctions.clientConfiguration);
    return stepFunctionsOrchestrator({
      client: client.current,
      stateMachineArn: stepFunctions.stateMachineArn(STATE_MACHINE),
    });
  };
  composed.product = product;
  // One server works on a database: what a provider call of an earlier one was doing, nobody does any more.
  await expireLeases(database);
  await stepFunctions.start();
  // What the interpreter resumed is running; a turn whose execution it does not know is taken over.
  await reconcile(product, { idleSeconds: 0 });

  const stopping = new AbortController();
  // Every open stream listens.
  setMaxListeners(0, stopping.signal);
  const app = createApp(product, { streamLifeMs: null, stopping: stopping.signal });
  const { server, port } = await listen(app.fetch, options.host, options.port);
  const purge = { ...DEFAULT_PURGE, journalAfterDays: options.auditRetentionDays ?? DEFAULT_PURGE.journalAfterDays };
  const upkeep = [
    regularly(RELAY_MS, "relay", log, () => relayDue(product)),
    regularly(WORK_MS, "work", log, () => tendWork(product)),
    regularly(RECONCILE_MS, "reconciler", log, () => reconcile(product, { idleSeconds: RECONCILE_AFTER_SECONDS })),
    regularly(PURGE_MS, "purge", log, () => purgeDeleted(database, purge)),
    regularly(CLEANING_MS, "old answers", log, () => dropOldAnswers(database)),
  ];

  return {
    url: `http://${options.host.includes(":") ? `[${options.host}]` : options.host}:${port}`,
    environmentId,
    environmentKey,
    stepFunctions,
    product,
    async stop() {
      for (const timer of upkeep) {
        clearInterval(timer);
      }
      server.close();
      stopping.abort();
      // What the streams say last is on its way; nothing else that is still open will end by itself.
      await setTimeout(FAREWELL_MS);
      (server as { closeAllConnections?: () => void }).closeAllConnections?.();
      await stepFunctions.stop();
      client.current?.destroy();
      await statesPool.end();
      await database.end();
    },
  };
}

/** Runs a task of upkeep again and again; one that fails is tried at its next time. */
function regularly(milliseconds: number, task: string, log: Log, run: () => Promise<unknown>): NodeJS.Timeout {
  return setInterval(() => {
    run().catch((error: unknown) => {
      log.warn("A task of upkeep failed and will be tried again.", { task, error: (error as Error).name });
    });
  }, milliseconds);
}

function substitutions(): Record<string, string> {
  return {
    ...Object.fromEntries(Object.keys(STATE_HANDLERS).map((state) => [`${state}Function`, state])),
    ParkSeconds: PARK_SECONDS,
  };
}

function listen(
  fetch: Parameters<typeof serve>[0]["fetch"],
  host: string,
  port: number,
): Promise<{ server: ServerType; port: number }> {
  return new Promise((resolve, reject) => {
    const server = serve({ fetch, hostname: host, port, overrideGlobalObjects: false }, (info) =>
      resolve({ server, port: info.port }),
    );
    server.once("error", reject);
  });
}
