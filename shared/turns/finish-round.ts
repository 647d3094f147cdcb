import type { ModelOutcome, TurnRef } from "../../statemachines/turn-payload.ts";
import { derivedId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { endCall, NO_USAGE, recordLateUsage } from "../journal/provider-calls.ts";
import { prepareSteps } from "../journal/tool-steps.ts";
import { splice } from "../ledger/event.ts";
import { type Block, readBlocks } from "../model/content-blocks.ts";
import type { ModelError, ModelResponse, ModelUsage } from "../model/model.ts";
import { halfServerCalls } from "../model/native-blocks.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { ToolOwner } from "../permissions/runtime.ts";
import { SessionUnit } from "../sessions/session-unit.ts";
import { appendEntry, markTriggerRefused } from "../transcript/transcript.ts";
import { retryDelaySeconds } from "./backoff-delay.ts";
import { type BegunRound, spanEnd } from "./begin-round.ts";
import { endTurn } from "./end-turn.ts";
import { publishNativeCalls } from "./native-calls.ts";
import { setRoundState } from "./rounds.ts";
import { routeStop } from "./stop-reason.ts";
import { isActive, lockTurn, setTurnState } from "./turn-row.ts";

export interface Finished {
  /** `busy`: the segment still owns the turn, but this call was judged by somebody else; the journal decides what is next. */
  readonly next: ModelOutcome | "busy";
  readonly delaySeconds?: number;
  readonly retry?: number;
  /** The turn has failed with this round; the caller tells so after the commit. */
  readonly turnFailed?: boolean;
  /** What the caller relays after the commit. */
  readonly outbox: readonly OutboxRow[];
}

/** The public id of the message that a call's text becomes; its previews carry it before the message exists. */
export function messageEventId(callId: string): string {
  return derivedId("sevt", callId, "agent.message");
}

/** The public id of the signal that a call's model is thinking. */
export function thinkingEventId(callId: string): string {
  return derivedId("sevt", callId, "agent.thinking");
}

/**
 * A call whose answer can no longer count: its turn was taken away (an interrupt, a newer segment), or its lease ran out
 * and another attempt is under way. What the provider counted is kept, once; an open span is closed.
 */
export async function abandonRound(
  transaction: Transaction,
  ref: TurnRef,
  begun: BegunRound,
  late: { readonly usage: ModelUsage; readonly requestId: string | null },
): Promise<Finished> {
  const locked = await lockTurn(transaction, ref);
  if (locked === null) {
    return { next: "stop", outbox: [] };
  }
  const unit = new SessionUnit(transaction, locked.session);
  const recorded = await recordLateUsage(transaction, { callId: begun.callId, ...late });
  if (recorded !== null) {
    unit.addUsage(late.usage);
    // Whoever takes over, in this segment or a later one, finds the call judged: its span is closed with the judgment.
    if (recorded.was === "started" && isActive(locked.turn.state)) {
      unit.append(
        spanEnd({
          callId: begun.callId,
          spanEventId: begun.spanEventId,
          threadId: locked.turn.threadId,
          isError: true,
          usage: late.usage,
        }),
      );
    }
    await unit.flush();
  }
  return { next: locked.owned ? "busy" : "stop", outbox: [] };
}

/** Stores the exact response, prepares its tool calls and publishes its text, in one transaction. */
export async function completeRound(
  transaction: Transaction,
  ref: TurnRef,
  begun: BegunRound,
  response: ModelResponse,
): Promise<Finished> {
  const { usage, requestId } = response;
  const locked = await lockTurn(transaction, ref);
  const call = { callId: begun.callId, usage, requestId };
  if (
    !locked?.owned ||
    !(await endCall(transaction, { ...call, state: "completed", stopReason: response.stopReason }))
  ) {
    return abandonRound(transaction, ref, begun, { usage, requestId });
  }
  const { session, turn } = locked;
  const unit = new SessionUnit(transaction, session);
  unit.addUsage(response.usage);
  const blocks = readBlocks(response.content);
  const calls = blocks.filter((block) => block.type === "tool_use" && block.id !== undefined);
  const routed = routeStop(response.stopReason, response.stopDetails, calls.length);
  await appendEntry(transaction, session, turn, {
    role: "assistant",
    content: response.content,
    toolUseIds: calls.flatMap((block) => block.id ?? []),
    halfServerCalls: halfServerCalls(blocks),
  });
  await setRoundState(transaction, {
    turnId: turn.id,
    number: begun.round,
    state: "answered",
    stopReason: response.stopReason,
    stopDetails: response.stopDetails,
  });
  if (turn.retries > 0) {
    await setTurnState(transaction, { turnId: turn.id, state: "running", retries: 0 });
  }
  publishThinking(unit, begun, blocks);
  await publishNativeCalls(transaction, unit, begun, blocks);
  publishMessage(unit, begun, blocks);
  const end = spanEnd({
    callId: begun.callId,
    spanEventId: begun.spanEventId,
    threadId: turn.threadId,
    isError: false,
    usage: response.usage,
  });
  if (routed.next === "tools") {
    // The span ends after the calls, which the gate publishes.
    await prepareSteps(
      transaction,
      { workspaceId: turn.workspaceId, sessionId: turn.sessionId },
      calls.map((block, position) => stepOf(begun, block, position)),
    );
  } else {
    unit.append(end);
  }
  const outbox: OutboxRow[] = [];
  if (routed.next === "exhausted") {
    unit.append(
      sessionError(
        begun,
        "model_request_failed_error",
        "The conversation no longer fits the model's context window.",
        "exhausted",
      ),
    );
    outbox.push(
      ...(await endTurn(transaction, unit, turn, {
        state: "exhausted",
        reason: { type: "retries_exhausted" },
        queued: "flush",
      })),
    );
  }
  await unit.flush();
  return routed.next === "exhausted" ? { next: "stop", turnFailed: true, outbox } : { next: routed.next, outbox };
}

function publishThinking(unit: SessionUnit, begun: BegunRound, blocks: readonly Block[]): void {
  if (blocks.some((block) => block.type === "thinking" || block.type === "redacted_thinking")) {
    const { threadId } = begun.turn;
    unit.append({ id: thinkingEventId(begun.callId), type: "agent.thinking", threadId, payload: "{}" });
  }
}

function publishMessage(unit: SessionUnit, begun: BegunRound, blocks: readonly Block[]): void {
  const texts = blocks
    .filter((block) => block.type === "text")
    .map((block) => ({ type: "text", text: block.text ?? "" }));
  if (texts.some((block) => block.text !== "")) {
    unit.append({
      id: messageEventId(begun.callId),
      type: "agent.message",
      threadId: begun.turn.threadId,
      payload: splice({ content: texts }),
    });
  }
}

function stepOf(begun: BegunRound, block: Block, position: number) {
  const id = derivedId("step", begun.callId, position);
  return {
    id,
    turnId: begun.turn.id,
    round: begun.round,
    position,
    eventId: derivedId("sevt", id, "tool_use"),
    providerToolUseId: block.id ?? "",
    name: block.name ?? "",
    input: block.inputText ?? "{}",
    owner: ownerOf(begun, block),
    idempotencyKey: id,
  };
}

/**
 * A call whose input is broken is nobody's, and so is one of a tool that the provider runs itself: it calls that one
 * within its own answer, never by a tool_use of ours. The gate refuses both.
 */
function ownerOf(begun: BegunRound, block: Block): ToolOwner | "none" {
  const tool = begun.session.runtime.tools.find((candidate) => candidate.name === block.name);
  return tool === undefined || tool.owner === "provider_native" || block.brokenInput !== undefined
    ? "none"
    : tool.owner;
}

/** How often one round is asked again before the turn gives up. */
const MAX_RETRIES = 6;

/** Writes down a refusal or a break, and decides whether the turn waits and asks again or ends exhausted. */
export async function failRound(
  transaction: Transaction,
  ref: TurnRef,
  begun: BegunRound,
  error: ModelError,
): Promise<Finished> {
  const usage = error.usage ?? NO_USAGE;
  const { requestId } = error;
  const locked = await lockTurn(transaction, ref);
  const call = { callId: begun.callId, usage, requestId };
  if (!locked?.owned || !(await endCall(transaction, { ...call, state: "failed", errorType: error.type }))) {
    return abandonRound(transaction, ref, begun, { usage, requestId });
  }
  const { session, turn } = locked;
  const unit = new SessionUnit(transaction, session);
  unit.addUsage(usage);
  unit.append(
    spanEnd({ callId: begun.callId, spanEventId: begun.spanEventId, threadId: turn.threadId, isError: true, usage }),
  );
  const retry = error.retryable && turn.retries < MAX_RETRIES;
  unit.append(sessionError(begun, error.type, error.message, retry ? "retrying" : "exhausted"));
  if (retry) {
    unit.reschedule(turn.threadId, begun.callId);
    const delaySeconds = retryDelaySeconds(turn.retries, error.retryAfterMs, Math.random());
    const retries = turn.retries + 1;
    await setTurnState(transaction, { turnId: turn.id, state: "backing_off", retries, retryInSeconds: delaySeconds });
    await unit.flush();
    return { next: "retry", delaySeconds, retry: retries, outbox: [] };
  }
  if (error.status === 400 && begun.round === 1 && !error.tooLarge) {
    await markTriggerRefused(transaction, turn.id);
  }
  const outbox = await endTurn(transaction, unit, turn, {
    state: "exhausted",
    reason: { type: "retries_exhausted" },
    queued: "flush",
  });
  await unit.flush();
  return { next: "stop", turnFailed: true, outbox };
}

function sessionError(begun: BegunRound, type: string, message: string, retryStatus: "retrying" | "exhausted") {
  return {
    id: derivedId("sevt", begun.callId, "session.error"),
    type: "session.error",
    threadId: begun.turn.threadId,
    payload: splice({ error: { type, message, retry_status: { type: retryStatus } } }),
  };
}
