import type { CallModelOutput, TurnRef } from "../../statemachines/turn-payload.ts";
import { derivedId } from "../contract/ids.ts";
import { inTransaction } from "../db/transaction.ts";
import { NO_USAGE, renewLease, stillOwned } from "../journal/provider-calls.ts";
import { ModelAborted, ModelError } from "../model/model.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import { pinnedProfile } from "../permissions/runtime.ts";
import type { Product } from "../product.ts";
import { type BegunRound, beginRound } from "./begin-round.ts";
import { abandonRound, completeRound, type Finished, failRound } from "./finish-round.ts";
import { previewPublisher } from "./previews.ts";
import { storeOutcome } from "./store-outcome.ts";
import { TurnBusyError } from "./turn-errors.ts";
import { assertSendable, assertUsable } from "./usable-response.ts";
import { watchFence } from "./watch-fence.ts";

/** What an invocation keeps for itself of its time: to give up a request that is still running, and to write that down. */
const LAST_WORDS_MS = 60_000;

/**
 * The handler of state CallModel: makes one provider request, or tells the outcome of one that was made.
 *
 * `deadline` is when whoever invoked it gives it up. A minute before, a request that is still running is aborted and its
 * turn ended as exhausted: asked again it would take as long and cost as much. Without one it may take for ever.
 *
 * Throws `TurnBusyError` while another invocation holds the request's lease; the state's Retry asks again.
 */
export async function callModel(
  product: Product,
  ref: TurnRef,
  { deadline }: { readonly deadline?: Date } = {},
): Promise<CallModelOutput> {
  const begun = await inTransaction(product.database, (transaction) => beginRound(transaction, ref, product));
  if (begun.kind === "busy") {
    throw new TurnBusyError(ref.turnId);
  }
  if (begun.kind === "known") {
    return answer(ref, begun);
  }
  const sessionId = begun.session.id;
  void product.live.publish(sessionId, { type: "wake" });
  const finished = await request(product, ref, begun, deadline);
  void product.live.publish(sessionId, { type: "wake" });
  if (finished.turnFailed) {
    product.turnEnded?.("failed");
  }
  await relayAfterCommit(product, finished.outbox);
  const { next } = finished;
  if (next === "busy") {
    // `stop` would end the execution of a turn that is still this segment's; the Retry asks the journal again.
    throw new TurnBusyError(ref.turnId);
  }
  return answer(ref, { ...finished, next });
}

/** The state's output: what is not there is left out, because the state machine reads it as JSON. */
function answer(ref: TurnRef, outcome: Omit<CallModelOutput, keyof TurnRef>): CallModelOutput {
  const { next, delaySeconds, retry } = outcome;
  return {
    ...ref,
    next,
    ...(delaySeconds === undefined ? {} : { delaySeconds }),
    ...(retry === undefined ? {} : { retry }),
  };
}

async function request(
  product: Product,
  ref: TurnRef,
  begun: BegunRound,
  deadline: Date | undefined,
): Promise<Finished> {
  const abort = new AbortController();
  const disarm = abortInTime(deadline, abort);
  const { callId } = begun;
  const { database, leaseSeconds, owner } = product;
  const fence = {
    renew: () => renewLease(database, { callId, owner, leaseSeconds }),
    look: () => stillOwned(database, callId),
  };
  const stopWatching = watchFence(product, fence, { named: { call_id: callId }, abort });
  const previews = previewPublisher(product.live, begun);
  try {
    assertSendable(begun.body, pinnedProfile(begun.session.runtime).max_request_bytes);
    const response = await product.model.stream({
      body: begun.body,
      // A repeat after a lost lease has the key of the request that may have been answered; one after a failure has not.
      idempotencyKey: derivedId("pcall", begun.turn.id, begun.round, "retry", begun.turn.retries),
      signal: abort.signal,
      onPreview: previews,
    });
    assertUsable(response);
    return await storeOutcome(product, (transaction) => completeRound(transaction, ref, begun, response));
  } catch (caught) {
    const error = caught instanceof ModelAborted && abort.signal.reason === OUT_OF_TIME ? outOfTime(caught) : caught;
    if (error instanceof ModelError) {
      return await storeOutcome(product, (transaction) => failRound(transaction, ref, begun, error));
    }
    if (error instanceof ModelAborted) {
      const late = { usage: error.usage ?? NO_USAGE, requestId: null };
      return await storeOutcome(product, (transaction) => abandonRound(transaction, ref, begun, late));
    }
    throw error;
  } finally {
    disarm();
    stopWatching();
  }
}

/** Why a request was aborted that nobody took away: the first reason to abort is the one that counts. */
const OUT_OF_TIME = Symbol("out of time");

/** Aborts a request that is still running a minute before the deadline. Returns what calls that off. */
function abortInTime(deadline: Date | undefined, abort: AbortController): () => void {
  if (deadline === undefined) {
    return () => {};
  }
  const left = deadline.getTime() - Date.now() - LAST_WORDS_MS;
  const timer = setTimeout(() => abort.abort(OUT_OF_TIME), Math.max(0, left));
  return () => clearTimeout(timer);
}

/** A refusal for good, with what the provider had counted until then. */
function outOfTime({ usage }: ModelAborted): ModelError {
  return new ModelError("The model did not finish its answer in the time that one request may take.", {
    type: "model_request_failed_error",
    retryable: false,
    usage,
  });
}
