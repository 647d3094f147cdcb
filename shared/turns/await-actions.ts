import type { AwaitInput, BackoffInput, EndOutput, GateOutput, TurnRef } from "../../statemachines/turn-payload.ts";
import { inTransaction, type Transaction } from "../db/transaction.ts";
import { stepsOfRound } from "../journal/tool-steps.ts";
import { type OutboxRow, queueRelease, queueStart } from "../outbox/outbox.ts";
import { relayAfterCommit } from "../outbox/relay.ts";
import type { Product } from "../product.ts";
import { type Standing, standing } from "./gate-tools.ts";
import { latestRound } from "./rounds.ts";
import { lockTurn, nextSegment, setTurnState, type TurnRow } from "./turn-row.ts";

/**
 * Waiting. A release is a condition, not a flag: whoever makes the barrier complete, or finds it complete, queues the
 * release, so that it does not matter which comes first, the answer or the token that waits for it.
 */

/**
 * The handler of state AwaitActions: stores the token, unless there is nothing left to wait for.
 *
 * A handler may come late, when its state has timed out and the turn is elsewhere: then it stores nothing, because its
 * token is dead and would overwrite a living one.
 */
export async function awaitActions(product: Product, input: AwaitInput): Promise<void> {
  const rows = await inTransaction(product.database, async (transaction) => {
    const ref = { turnId: input.turnId, segment: input.segment };
    const locked = await lockTurn(transaction, ref);
    const round = locked === null ? null : await latestRound(transaction, ref.turnId);
    if (locked === null || round === null) {
      return [];
    }
    const { turn } = locked;
    const draft = { workspaceId: turn.workspaceId, sessionId: turn.sessionId, ...ref, taskToken: input.taskToken };
    if (!locked.owned) {
      return [await queueRelease(transaction, { ...draft, output: stopped(ref) })];
    }
    if (round.number !== input.round || round.state !== "gated") {
      // The turn is further than this wait. Either this handler is late and its token dead, or a doubled CallModel went
      // ahead and this execution waits for nothing: it is told to look again, and if nobody hears, that is all.
      const output: GateOutput = { ...ref, run: [], round: round.number, next: "continue" };
      return [await queueRelease(transaction, { ...draft, output, lostIfStale: false })];
    }
    const stand = await standingOf(transaction, turn);
    if (stand.next === "continue") {
      return [await queueRelease(transaction, { ...draft, output: { ...ref, ...stand } satisfies GateOutput })];
    }
    await setTurnState(transaction, { turnId: turn.id, state: "parked", taskToken: input.taskToken });
    return [];
  });
  await relayAfterCommit(product, rows);
}

/** The handler of state Backoff: stores the token, so that an interrupt ends the wait at once. A late one leaves no trace. */
export async function backoff(product: Product, input: BackoffInput): Promise<void> {
  const rows = await inTransaction(product.database, async (transaction) => {
    const ref = { turnId: input.turnId, segment: input.segment };
    const locked = await lockTurn(transaction, ref);
    if (locked === null) {
      return [];
    }
    const { turn } = locked;
    if (!locked.owned) {
      const draft = { workspaceId: turn.workspaceId, sessionId: turn.sessionId, ...ref, taskToken: input.taskToken };
      return [await queueRelease(transaction, { ...draft, output: stopped(ref) })];
    }
    if (turn.state === "backing_off" && turn.retries === input.retry) {
      await setTurnState(transaction, { turnId: turn.id, state: "backing_off", taskToken: input.taskToken });
    }
    return [];
  });
  await relayAfterCommit(product, rows);
}

function stopped(ref: TurnRef): GateOutput {
  return { turnId: ref.turnId, segment: ref.segment, run: [], round: 0, next: "stop" };
}

async function standingOf(transaction: Transaction, turn: TurnRow): Promise<Standing> {
  const round = await latestRound(transaction, turn.id);
  const steps = round === null ? [] : await stepsOfRound(transaction, { turnId: turn.id, round: round.number });
  return standing(transaction, turn.sessionId, round?.number ?? 0, steps);
}

/**
 * Lets a turn go on whose barrier has just become complete; the caller holds the session's lock. Where an execution
 * waits, it is released; where it hibernated, the next segment starts; where its token is still on the way,
 * `awaitActions` will find the barrier complete.
 */
export async function resume(transaction: Transaction, turn: TurnRow): Promise<OutboxRow[]> {
  const owner = { workspaceId: turn.workspaceId, sessionId: turn.sessionId, turnId: turn.id };
  if (turn.state === "hibernated") {
    return [await queueStart(transaction, { ...owner, segment: await nextSegment(transaction, turn.id) })];
  }
  await setTurnState(transaction, { turnId: turn.id, state: "running" });
  if (turn.taskToken === null) {
    return [];
  }
  const output: GateOutput = { turnId: turn.id, segment: turn.segment, ...(await standingOf(transaction, turn)) };
  return [await queueRelease(transaction, { ...owner, segment: turn.segment, taskToken: turn.taskToken, output })];
}

/** Ends the execution that waits for a turn which has just been ended by somebody else. */
export async function releaseStopped(transaction: Transaction, turn: TurnRow): Promise<OutboxRow[]> {
  if (turn.taskToken === null) {
    return [];
  }
  const owner = { workspaceId: turn.workspaceId, sessionId: turn.sessionId, turnId: turn.id, segment: turn.segment };
  return [
    await queueRelease(transaction, {
      ...owner,
      taskToken: turn.taskToken,
      output: stopped({ turnId: turn.id, segment: turn.segment }),
    }),
  ];
}

/** The handler of state Hibernate: the wait goes on without an execution, unless the answer has come meanwhile. */
export async function hibernate(product: Product, ref: TurnRef): Promise<GateOutput> {
  return inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null || !locked.owned) {
      return stopped(ref);
    }
    const stand = await standingOf(transaction, locked.turn);
    if (stand.next === "continue") {
      await setTurnState(transaction, { turnId: ref.turnId, state: "running" });
      return { ...ref, ...stand };
    }
    await setTurnState(transaction, { turnId: ref.turnId, state: "hibernated" });
    return stopped(ref);
  });
}

/** The handler of state HandOver: the next segment's execution takes over with an empty history. */
export async function handOver(product: Product, ref: TurnRef): Promise<EndOutput> {
  const rows = await inTransaction(product.database, async (transaction) => {
    const locked = await lockTurn(transaction, ref);
    if (locked === null || !locked.owned) {
      return [];
    }
    const segment = await nextSegment(transaction, ref.turnId);
    return [
      await queueStart(transaction, {
        workspaceId: locked.turn.workspaceId,
        sessionId: locked.turn.sessionId,
        turnId: ref.turnId,
        segment,
      }),
    ];
  });
  await relayAfterCommit(product, rows);
  return { ...ref, next: "stop" };
}
