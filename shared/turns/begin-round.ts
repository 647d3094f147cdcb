import type { ModelOutcome, TurnRef } from "../../statemachines/turn-payload.ts";
import { buildRequest } from "../context/build-request.ts";
import { digest, writeSnapshot } from "../context/snapshot.ts";
import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { endCall, NO_USAGE } from "../journal/provider-calls.ts";
import { isSettled, stepsOfRound } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { acknowledge } from "../outbox/outbox.ts";
import type { SessionRow } from "../sessions/session-row.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { resultsEntry } from "../transcript/results-entry.ts";
import { appendEntry, END_OF_TURN, readTranscript } from "../transcript/transcript.ts";
import { latestRound, type RoundRow, startCall } from "./rounds.ts";
import { mustHandOver, ROUND_EVENTS } from "./segment-budget.ts";
import { routeStop } from "./stop-reason.ts";
import { lockTurn, setTurnState, type TurnRow } from "./turn-row.ts";

/** A provider that pauses for ever would be asked for ever. */
const MAX_ROUNDS = 1000;

export interface BegunRound {
  readonly kind: "request";
  readonly session: SessionRow;
  readonly turn: TurnRow;
  readonly round: number;
  readonly callId: string;
  readonly spanEventId: string;
  /** The ledger position of the span's start: previews may be shown after it. */
  readonly spanSeq: number;
  readonly body: string;
}

/** What CallModel finds: a request to make, an outcome that is known already, or a call that somebody else runs. */
export type Begun =
  | BegunRound
  | {
      readonly kind: "known";
      readonly next: ModelOutcome;
      /** Only with `retry`, as in the state's output. */
      readonly delaySeconds?: number;
      readonly retry?: number;
    }
  | { readonly kind: "busy" };

/**
 * Decides, under the session's lock, what the turn needs next, and prepares it. CallModel is also where every segment
 * starts, so this is where a turn is picked up after any crash: the journal says where it stood.
 */
export async function beginRound(
  transaction: Transaction,
  ref: TurnRef,
  holder: { readonly owner: string; readonly leaseSeconds: number },
): Promise<Begun> {
  const locked = await lockTurn(transaction, ref);
  if (locked === null || !locked.owned) {
    return { kind: "known", next: "stop" };
  }
  const { session, turn } = locked;
  // Whatever it finds: a segment that goes on waiting has been started too.
  await acknowledge(transaction, { turnId: turn.id, segment: turn.segment });
  const unit = new SessionUnit(transaction, session);
  const round = await latestRound(transaction, turn.id);
  const step = await nextStep(transaction, unit, turn, round);
  if (step.kind !== "request") {
    return step;
  }
  const through = { turn: turn.ordinal, entry: END_OF_TURN };
  const transcript = await readTranscript(transaction, { threadId: turn.threadId, through });
  const body = buildRequest(session.runtime, transcript);
  const callId = derivedId("pcall", turn.id, step.round, step.attempt);
  const spanEventId = derivedId("sevt", callId, "span.model_request_start");
  await startCall(transaction, turn, {
    id: callId,
    round: step.round,
    attempt: step.attempt,
    spanEventId,
    requestDigest: digest(body),
    historyEvents: step.attempt === 1 ? ROUND_EVENTS : 0,
    owner: holder.owner,
    leaseSeconds: holder.leaseSeconds,
    provider: session.runtime.provider,
    model: session.runtime.model,
  });
  await writeSnapshot(transaction, session, { callId, turnId: turn.id, transcript, body });
  unit.run(turn.threadId, callId);
  const span = unit.append({
    id: spanEventId,
    type: "span.model_request_start",
    threadId: turn.threadId,
    payload: "{}",
  });
  await unit.flush();
  return { kind: "request", session, turn, round: step.round, callId, spanEventId, spanSeq: span.seq, body };
}

type NextStep =
  | { readonly kind: "request"; readonly round: number; readonly attempt: number }
  | Exclude<Begun, BegunRound>;

async function nextStep(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  round: RoundRow | null,
): Promise<NextStep> {
  if (round === null) {
    return { kind: "request", round: 1, attempt: 1 };
  }
  switch (round.state) {
    case "open":
      return repeatOpenRound(transaction, unit, turn, round);
    case "answered": {
      const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
      const routed = routeStop(round.stopReason, round.stopDetails, steps.length);
      return routed.next === "continue" && round.number < MAX_ROUNDS
        ? newRound(turn, round)
        : { kind: "known", next: routed.next === "tools" ? "tools" : "end" };
    }
    case "gated": {
      const steps = await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
      if (!steps.every(isSettled)) {
        return { kind: "known", next: "tools" };
      }
      const next = newRound(turn, round);
      if (next.kind === "request") {
        await appendEntry(transaction, unit.session, turn, resultsEntry(steps));
      }
      return next;
    }
  }
}

function newRound(turn: TurnRow, round: RoundRow): NextStep {
  if (mustHandOver(turn.segmentEvents)) {
    return { kind: "known", next: "hand_over" };
  }
  return { kind: "request", round: round.number + 1, attempt: 1 };
}

/** The round was asked but not answered: refused by the provider, still under way, or lost with its process. */
async function repeatOpenRound(
  transaction: Transaction,
  unit: SessionUnit,
  turn: TurnRow,
  round: RoundRow,
): Promise<NextStep> {
  if (round.call.state === "started") {
    if (round.call.leaseLive) {
      return { kind: "busy" };
    }
    // Nobody knows whether the provider answered, or what it cost; its span is closed and the request asked again.
    await endCall(transaction, {
      callId: round.call.id,
      state: "ambiguous",
      usage: NO_USAGE,
      errorType: "lease_expired",
    });
    unit.append(
      spanEnd({
        callId: round.call.id,
        spanEventId: round.call.spanEventId,
        threadId: turn.threadId,
        isError: true,
        usage: NO_USAGE,
      }),
    );
  } else if (turn.retryInSeconds > 0) {
    // A new segment, or a handler that lost the answer of its commit, finds the provider's wait unfinished.
    await setTurnState(transaction, { turnId: turn.id, state: "backing_off" });
    return { kind: "known", next: "retry", delaySeconds: turn.retryInSeconds, retry: turn.retries };
  }
  return { kind: "request", round: round.number, attempt: round.call.attempt + 1 };
}

/** The event that closes a model request's span. Always written, whatever happened: it also ends unfinished previews. */
export function spanEnd(params: {
  readonly callId: string;
  readonly spanEventId: string;
  readonly threadId: string;
  readonly isError: boolean;
  readonly usage: typeof NO_USAGE;
}) {
  return {
    id: derivedId("sevt", params.callId, "span.model_request_end"),
    type: "span.model_request_end",
    threadId: params.threadId,
    payload: splice({
      model_request_start_id: params.spanEventId,
      is_error: params.isError,
      model_usage: {
        input_tokens: params.usage.inputTokens,
        output_tokens: params.usage.outputTokens,
        cache_read_input_tokens: params.usage.cacheReadInputTokens,
        cache_creation_input_tokens: params.usage.cacheCreationInputTokens,
      },
    }),
  };
}
