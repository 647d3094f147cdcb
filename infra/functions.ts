import { Duration } from "aws-cdk-lib";
import type { IQueue } from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import type { FunctionName } from "./bundles.ts";
import type { DataStack } from "./data-stack.ts";
import { Handler, LAMBDA_AUTHORITIES } from "./handler.ts";
import { grant, type Right } from "./rights.ts";
import type { Settings } from "./settings.ts";

interface FunctionPlan {
  readonly bundle: FunctionName;
  readonly description: string;
  /** A state's function ends with its state: see TimeoutSeconds in `turn.asl.json`. */
  readonly seconds: number;
  /** Lambda gives processor time by memory; a full core is at 1,769. */
  readonly memory?: number;
  readonly rights: readonly Right[];
}

const state = (
  bundle: FunctionName,
  seconds: number,
  rights: readonly Right[],
  fields: { readonly memory?: number } = {},
): FunctionPlan => ({ bundle, description: `A state of the turn: ${bundle}`, seconds, rights, ...fields });

/** The task states of `turn.asl.json`: `${<State>Function}` is replaced by the function's ARN. */
export const STATE_FUNCTIONS = {
  CallModel: state("call-model", 900, ["database", "publish", "orchestrate", "model-key"], { memory: 1024 }),
  GateTools: state("gate-tools", 120, ["database", "publish", "model-key"], { memory: 1024 }),
  RunTool: state("run-tool", 900, ["database", "publish", "fetch-pages"]),
  AwaitActions: state("await-actions", 60, ["database", "orchestrate"]),
  Hibernate: state("hibernate", 60, ["database"]),
  Backoff: state("backoff", 60, ["database", "orchestrate"]),
  HandOver: state("hand-over", 60, ["database", "orchestrate"]),
  CompleteTurn: state("complete-turn", 60, ["database", "publish", "orchestrate"]),
  FailTurn: state("fail-turn", 60, ["database", "publish", "orchestrate"]),
} as const satisfies Record<string, FunctionPlan>;

export type StateName = keyof typeof STATE_FUNCTIONS;

/** What answers HTTP, and what looks after the outbox. */
const OTHER_FUNCTIONS = {
  Api: {
    bundle: "api",
    description: "The API, except streams and the worker's routes",
    seconds: 29,
    memory: 1024,
    rights: ["database", "publish", "orchestrate"],
  },
  // The same code with a concurrency of its own: waiting workers must not keep clients out.
  Work: {
    bundle: "api",
    description: "The API's routes for workers",
    seconds: 29,
    memory: 512,
    rights: ["database", "publish", "follow", "orchestrate"],
  },
  Stream: {
    bundle: "stream",
    description: "Streams of events",
    seconds: 900,
    memory: 512,
    rights: ["database", "follow", "take-stream-places"],
  },
  Operator: {
    bundle: "operator",
    description: "The operator's commands: who may invoke it may make and revoke every key",
    /** A database that resumes after a day takes thirty. */
    seconds: 60,
    rights: ["database"],
  },
  Relay: {
    bundle: "relay",
    description: "Delivers what the outbox still holds, brings lost turns back, removes what has had its time",
    seconds: 60,
    rights: ["database", "publish", "orchestrate", "find-executions"],
  },
} as const satisfies Record<string, FunctionPlan>;

/** What speaks to addresses that tenants chose: in no network of ours, and told nothing of the deployment. */
const FETCH_PAGE = {
  bundle: "fetch-page",
  description: "Fetches a page for run-tool, from outside the network",
  /** A fetch ends itself after 30; then its page is read. */
  seconds: 60,
  memory: 1024,
} as const;

/** Runs of the schedule, lost executions and the first net side by side; more would only contend for the same rows. */
const RELAY_CONCURRENCY = 5;

export interface FunctionsProps {
  readonly bundles: string;
  readonly data: DataStack;
  readonly settings: Settings;
  readonly stateMachineArn: string;
  readonly executionsArn: string;
  readonly relayQueue: IQueue;
}

/** Every function of the product, with its variables and rights. */
export class Functions extends Construct {
  readonly states: Readonly<Record<StateName, Handler>>;
  readonly api: Handler;
  readonly work: Handler;
  readonly stream: Handler;
  readonly operator: Handler;
  readonly relay: Handler;
  /** Only with `webFetch=managed`. */
  readonly fetchPage: Handler | undefined;

  constructor(scope: Construct, id: string, props: FunctionsProps) {
    super(scope, id);
    const { settings } = props;
    this.fetchPage = settings.webFetch === "managed" ? this.#makeFetchPage(props) : undefined;
    this.states = Object.fromEntries(
      Object.entries(STATE_FUNCTIONS).map(([name, plan]) => [name, this.#make(name, plan, props)]),
    ) as Record<StateName, Handler>;
    const { Api, Operator, Work, Stream, Relay } = OTHER_FUNCTIONS;
    this.api = this.#make("Api", Api, props, settings.apiConcurrency);
    this.work = this.#make("Work", Work, props, settings.workConcurrency);
    this.stream = this.#make("Stream", Stream, props, settings.streamConcurrency);
    this.operator = this.#make("Operator", Operator, props);
    this.relay = this.#make("Relay", Relay, props, RELAY_CONCURRENCY);
  }

  #make(name: string, plan: FunctionPlan, props: FunctionsProps, reservedConcurrency?: number): Handler {
    const { data, settings, stateMachineArn } = props;
    const handler = new Handler(this, name, {
      bundles: props.bundles,
      stage: settings.stage,
      bundle: plan.bundle,
      description: plan.description,
      network: { vpc: data.network.vpc, securityGroup: data.network.functions },
      timeout: Duration.seconds(plan.seconds),
      memorySize: plan.memory ?? 512,
      environment: {
        ...data.database.variables,
        MANGO_LIVE_TABLE: data.live.table.tableName,
        MANGO_STATE_MACHINE_ARN: stateMachineArn,
        MANGO_RELAY_QUEUE_URL: props.relayQueue.queueUrl,
        ...(settings.scaleToZero && { MANGO_SCALE_TO_ZERO: "on", NODE_EXTRA_CA_CERTS: LAMBDA_AUTHORITIES }),
        ...(settings.modelProfile !== undefined && { MANGO_MODEL_PROFILE: JSON.stringify(settings.modelProfile) }),
        ...(settings.webFetch === "managed" && { MANGO_WEB_FETCH: settings.webFetch }),
        ...(plan.rights.includes("fetch-pages") && this.#pageCallerVariables(settings)),
        ...(plan.rights.includes("model-key") && {
          MANGO_MODEL_BASE_URL: settings.modelBaseUrl,
          MANGO_MODEL_AUTH: settings.modelAuth,
          MANGO_MODEL_SECRET_ARN: data.modelSecret.secretArn,
        }),
        ...(plan.bundle === "stream" && {
          MANGO_STREAM_LIFE_SECONDS: String(settings.streamLifeSeconds),
          // Half, so that nobody has all.
          MANGO_STREAMS_PER_KEY: String(Math.ceil(settings.streamConcurrency / 2)),
        }),
      },
      ...(settings.reserveConcurrency && reservedConcurrency !== undefined && { reservedConcurrency }),
    });
    const rights = new Set<Right>([
      ...plan.rights,
      ...(plan.rights.includes("orchestrate") ? (["tell-relay"] as const) : []),
      ...(settings.scaleToZero ? (["quiet"] as const) : []),
    ]);
    for (const right of rights) {
      grant(handler, right, { ...props, fetchPage: this.fetchPage });
    }
    return handler;
  }

  #makeFetchPage({ bundles, settings }: FunctionsProps): Handler {
    const { seconds, memory, ...plan } = FETCH_PAGE;
    return new Handler(this, "FetchPage", {
      ...plan,
      bundles,
      stage: settings.stage,
      timeout: Duration.seconds(seconds),
      memorySize: memory,
      environment: settings.webFetchProxy === undefined ? {} : { MANGO_WEB_FETCH_PROXY: settings.webFetchProxy },
    });
  }

  #pageCallerVariables({ webFetchAllowedDomains, webFetchBlockedDomains }: Settings): Record<string, string> {
    return {
      ...(this.fetchPage !== undefined && { MANGO_WEB_FETCH_FUNCTION: this.fetchPage.function.functionName }),
      ...(webFetchAllowedDomains !== undefined && {
        MANGO_WEB_FETCH_ALLOWED_DOMAINS: webFetchAllowedDomains.join(","),
      }),
      ...(webFetchBlockedDomains !== undefined && {
        MANGO_WEB_FETCH_BLOCKED_DOMAINS: webFetchBlockedDomains.join(","),
      }),
    };
  }
}
