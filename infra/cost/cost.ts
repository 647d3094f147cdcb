import { HOURS_A_MONTH, PRICES } from "./prices.ts";

/** What the templates say that costs something. */
export interface Deployment {
  /** Megabytes by function: `Api`, `CallModel`. */
  readonly memory: Readonly<Record<string, number>>;
  readonly minCapacity: number;
  readonly proxied: boolean;
  readonly natGateways: number;
  readonly keys: number;
  readonly secrets: number;
  /** Metrics that alarms look at. */
  readonly alarmMetrics: number;
  readonly dashboards: number;
  readonly streamLifeSeconds: number;
}

/** What is assumed about a turn; everything else is read or counted. */
export const ASSUMED = {
  /** How long the provider takes for an answer: its Lambda waits, and is paid for it. */
  answerSeconds: 10,
  /** How long any other handler takes. */
  handlerSeconds: 0.1,
  /** Wake-ups and previews, while an answer is written. */
  liveWritesASecond: 5,
  /** A worker's requests for one call: poll, ack, heartbeats, the events before it, the result, stop. */
  workerRequests: 8,
  /** How long a worker stays with a session that has gone quiet, its stream open: `--max-idle`. */
  workerIdleSeconds: 60,
  /** How long a worker's request for work waits. */
  pollSeconds: 20,
  /** Lambda asks a queue all the time, with so many requests at once that wait 20 s each. */
  queuePollers: 5,
  queuePollSeconds: 20,
  /** Metrics of our own: see `functions/observation.ts`. */
  customMetrics: 16,
} as const;

export interface Item {
  readonly what: string;
  readonly dollars: number;
}

const gb = (deployment: Deployment, name: string) => (deployment.memory[name] ?? Number.NaN) / 1024;

function lambda(deployment: Deployment, runs: readonly (readonly [name: string, times: number, seconds: number])[]) {
  return runs.reduce(
    (sum, [name, times, seconds]) =>
      sum + times * (PRICES.lambdaRequest + gb(deployment, name) * seconds * PRICES.lambdaGbSecond),
    0,
  );
}

/**
 * Looks at the live channel: each 200 ms, as a worker's poll does while it waits and a stream while its session runs;
 * each two seconds for a stream of an idle one.
 */
const LOOKS_A_SECOND = { running: 5, idle: 1 / 2 } as const;
/** A look is an eventually consistent read, which costs half. */
const LOOK = PRICES.dynamoRead / 2;
/** A stream's place is written twice and removed twice, after two consistent looks at those that are taken. */
const PLACE = 4 * PRICES.dynamoWrite + 2 * PRICES.dynamoRead;

/**
 * One turn; `rounds` provider requests, the ones before the last each with one call for a worker. Its client holds a
 * stream for as long as it takes, and its worker one more.
 */
export function turnCost(deployment: Deployment, params: { readonly states: number; readonly rounds: number }): Item[] {
  const { answerSeconds, handlerSeconds: s, liveWritesASecond, workerIdleSeconds, workerRequests } = ASSUMED;
  const calls = params.rounds - 1;
  const seconds = params.rounds * answerSeconds;
  // The client's, and with a call the worker's.
  const streams = calls === 0 ? 1 : 2;
  const idleSeconds = calls === 0 ? 0 : workerIdleSeconds;
  return [
    { what: "Step Functions", dollars: params.states * PRICES.stateTransition },
    {
      what: "Lambda: waiting for the provider",
      dollars: lambda(deployment, [["CallModel", params.rounds, answerSeconds]]),
    },
    {
      what: "Lambda: the rest",
      dollars: lambda(deployment, [
        ["Api", 1, s],
        ["CompleteTurn", 1, s],
        ["GateTools", calls, s],
        ["AwaitActions", calls, s],
        ["Work", calls * workerRequests, s],
      ]),
    },
    {
      what: "Lambda: open streams",
      dollars: lambda(deployment, [
        ["Stream", 1, seconds],
        ...(calls === 0 ? [] : [["Stream", 1, seconds + idleSeconds] as const]),
      ]),
    },
    {
      what: "API Gateway",
      dollars: (1 + streams + calls * workerRequests) * PRICES.apiRequest,
    },
    {
      what: "Live channel",
      dollars:
        seconds * liveWritesASecond * PRICES.dynamoWrite +
        (streams * seconds * LOOKS_A_SECOND.running + idleSeconds * LOOKS_A_SECOND.idle) * LOOK,
    },
    { what: "Places of streams", dollars: streams * PLACE },
  ];
}

/** A month in which nothing happens; storage and logs by the gigabyte come on top. */
export function idleMonth(deployment: Deployment): Item[] {
  const relayRuns = (HOURS_A_MONTH * 60) / 1;
  const { natGateways, minCapacity } = deployment;
  return [
    { what: `Aurora, ${minCapacity} units`, dollars: minCapacity * HOURS_A_MONTH * PRICES.auroraAcuHour },
    ...(deployment.proxied
      ? [
          {
            what: "RDS Proxy",
            dollars: Math.max(minCapacity, PRICES.proxyLeastAcus) * HOURS_A_MONTH * PRICES.proxyAcuHour,
          },
        ]
      : []),
    { what: "NAT", dollars: natGateways * HOURS_A_MONTH * (PRICES.natHour + PRICES.publicAddressHour) },
    { what: "The relay's schedule", dollars: lambda(deployment, [["Relay", relayRuns, ASSUMED.handlerSeconds]]) },
    {
      what: "The relay's queue",
      dollars: ((HOURS_A_MONTH * 3600) / ASSUMED.queuePollSeconds) * ASSUMED.queuePollers * PRICES.queueRequest,
    },
    {
      what: "Alarms, metrics, dashboard",
      dollars:
        deployment.alarmMetrics * PRICES.alarmMetricMonth +
        ASSUMED.customMetrics * PRICES.customMetricMonth +
        deployment.dashboards * PRICES.dashboardMonth,
    },
    {
      what: "Keys and secrets",
      dollars: deployment.keys * PRICES.keyMonth + deployment.secrets * PRICES.secretMonth,
    },
  ];
}

/** A thousand streams of quiet sessions, open for an hour. */
export function streamHour(deployment: Deployment): Item[] {
  const streams = 1000;
  const connects = (streams * 3600) / deployment.streamLifeSeconds;
  const looks = streams * 3600 * LOOKS_A_SECOND.idle;
  return [
    { what: "Lambda", dollars: lambda(deployment, [["Stream", connects, deployment.streamLifeSeconds]]) },
    { what: "API Gateway", dollars: connects * PRICES.apiRequest },
    { what: "Live channel", dollars: looks * LOOK },
    { what: "Places of streams", dollars: connects * PLACE },
  ];
}

/** A month in which one worker waits for work. */
export function waitingWorker(deployment: Deployment): Item[] {
  const polls = (HOURS_A_MONTH * 3600) / ASSUMED.pollSeconds;
  const looks = HOURS_A_MONTH * 3600 * LOOKS_A_SECOND.running;
  return [
    { what: "Lambda", dollars: lambda(deployment, [["Work", polls, ASSUMED.pollSeconds]]) },
    { what: "API Gateway", dollars: polls * PRICES.apiRequest },
    { what: "Live channel", dollars: looks * LOOK },
  ];
}

export const total = (items: readonly Item[]): number => items.reduce((sum, { dollars }) => sum + dollars, 0);
