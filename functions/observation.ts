import { injectLambdaContext } from "@aws-lambda-powertools/logger/middleware";
import { Metrics, MetricUnit } from "@aws-lambda-powertools/metrics";
import type { MiddlewareObj } from "@middy/core";
import { type Model, ModelError } from "../shared/model/model.ts";
import type { Orchestrator } from "../shared/ports/orchestrator.ts";
import type { TurnOutcome } from "../shared/product.ts";
import { logger } from "./log.ts";

/**
 * What an operator sees of an invocation: log lines with its ids, a trace, and metrics.
 *
 * One id follows a request: X-Ray's trace id. API Gateway makes it, every line of every function has it
 * (`xray_trace_id`), StartExecution hands it to the turn, the provider gets it in a header, and whoever runs a tool
 * finds it in the call (`trace_id`). Beside it the lines of a turn carry `turn_id` and `segment`, those of a request the
 * gateway's `gateway_request_id`.
 *
 * Metrics are lines in the log that CloudWatch reads (embedded metric format): they cost no call. They count what
 * invocations did, so that an invocation that is repeated may count twice; the ledger is what bills and audits.
 */

const metrics = new Metrics();

/** Ids of the turn, or of the request, that the event is about. */
interface Identified {
  readonly turnId?: unknown;
  readonly segment?: unknown;
  readonly requestContext?: { readonly requestId?: unknown };
}

/** Goes around every handler. */
export function observed(): MiddlewareObj[] {
  return [injectLambdaContext(logger, { resetKeys: true }), identified(), { after: publish, onError: publish }];
}

/** Not Powertools' own middleware, which warns of each invocation that counted nothing. */
function publish(): void {
  if (metrics.hasStoredMetrics()) {
    metrics.publishStoredMetrics();
  }
}

function identified(): MiddlewareObj {
  return {
    before({ event }) {
      const { turnId, segment, requestContext } = (event ?? {}) as Identified;
      if (typeof turnId === "string") {
        logger.appendKeys({ turn_id: turnId, segment });
      }
      if (typeof requestContext?.requestId === "string") {
        logger.appendKeys({ gateway_request_id: requestContext.requestId });
      }
    },
  };
}

/** The trace that this invocation belongs to, in the form of the header `X-Amzn-Trace-Id`. */
export function traceHeader(): string | undefined {
  // Lambda sets it anew for each invocation.
  return process.env["_X_AMZN_TRACE_ID"];
}

/** The part of it that is the same from the request to the worker's log, as in `xray_trace_id`. */
export function traceId(): string | undefined {
  return /\bRoot=([^;]+)/.exec(traceHeader() ?? "")?.[1];
}

export type Figure =
  | "TurnsStarted"
  | "TurnsCompleted"
  | "TurnsFailed"
  | "Rounds"
  | "TurnsParked"
  | "OldestParkedTurn"
  | "WorkQueued"
  | "OldestQueuedWork"
  | "OutboxRows"
  | "OldestOutboxRow";

/** Adds to a figure of this minute. */
export function count(figure: Figure, by = 1): void {
  metrics.addMetric(figure, MetricUnit.Count, by);
}

/** A figure that is an age. */
export function seconds(figure: Figure, value: number): void {
  metrics.addMetric(figure, MetricUnit.Seconds, value);
}

/** Tells of each turn's first execution. */
export function countingStarts(orchestrator: Orchestrator): Orchestrator {
  return {
    ...orchestrator,
    async start(params) {
      const outcome = await orchestrator.start(params);
      if (outcome === "started" && params.name.endsWith("-1")) {
        count("TurnsStarted");
      }
      return outcome;
    },
  };
}

/** Tells of each turn's end. */
export function countEnd(outcome: TurnOutcome): void {
  count(outcome === "completed" ? "TurnsCompleted" : "TurnsFailed");
}

/** Tells how long the provider took, and of its refusals by kind. */
export function measured(model: Model): Model {
  return {
    ...model,
    async stream(request) {
      const began = performance.now();
      try {
        const response = await model.stream(request);
        metrics.addMetric("ProviderLatency", MetricUnit.Milliseconds, performance.now() - began);
        return response;
      } catch (error) {
        // The total, for the alarm; by kind in a line of its own, because a dimension is of every metric in its line.
        metrics.addMetric("ProviderErrors", MetricUnit.Count, 1);
        const single = metrics.singleMetric();
        single.addDimension("kind", error instanceof ModelError ? error.type : "aborted");
        single.addMetric("ProviderErrors", MetricUnit.Count, 1);
        throw error;
      }
    },
  };
}
