import type {
  AcceptedEvent,
  UserCustomToolResult,
  UserToolConfirmation,
  UserToolResult,
} from "../contract/client-events.ts";
import { Conflict, InvalidRequest, NotFound } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import type { Transaction } from "../db/transaction.ts";
import { settleStep, stepByEvent, stepById, type ToolStep } from "../journal/tool-steps.ts";
import { publicEvent, splice } from "../ledger/event.ts";
import { eventsByIds } from "../ledger/read.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import { actionsOfEvent, resolveAction } from "../permissions/barrier.ts";
import { deniedText } from "../permissions/gate.ts";
import { releaseStopped } from "../turns/await-actions.ts";
import { beginTurn } from "../turns/begin-turn.ts";
import { refuse } from "../turns/gate-tools.ts";
import { interruptTurn } from "../turns/interrupt.ts";
import { settleBarrier, waitingFor } from "../turns/settle-barrier.ts";
import { activeTurn, type TurnRow } from "../turns/turn-row.ts";
import { ensureWork } from "../work/ensure-work.ts";
import { assertHolds } from "../work/holder.ts";
import type { Principal } from "../workspaces/keys.ts";
import type { Aftermath } from "./announce.ts";
import { lockSession } from "./session-row.ts";
import { SessionUnit } from "./session-unit.ts";

export interface Admitted extends Aftermath {
  /** The events as the client sees them, in the order sent: JSON texts. */
  readonly events: readonly string[];
}

/**
 * Admits a batch of client events: all or none, in one transaction, and the last thing that may fail a POST.
 *
 * Under the session's lock each event is checked against what stands, appended, and takes effect: a message starts a
 * turn or is queued behind the one that runs, an answer resolves its part of the barrier, an interrupt ends the turn.
 */
export async function admitEvents(
  transaction: Transaction,
  params: {
    readonly workspaceId: string;
    readonly sessionId: string;
    readonly events: readonly AcceptedEvent[];
    /** Who sends; a claim of work is looked at again under the session's lock. */
    readonly sender?: Principal;
  },
): Promise<Admitted> {
  const session = await lockSession(transaction, params);
  if (session === null || session.deletingAt !== null) {
    throw new NotFound(`There is no session ${params.sessionId}.`);
  }
  if (session.archivedAt !== null || session.status === "terminated") {
    throw new InvalidRequest(`Session ${session.id} is archived; it takes no more events.`);
  }
  if (params.sender !== undefined) {
    await assertHolds(transaction, params.sender);
  }
  const admission = new Admission(transaction, new SessionUnit(transaction, session));
  for (const [index, event] of params.events.entries()) {
    await admission.admit(event, `events[${index}]`);
  }
  return admission.finish();
}

class Admission {
  readonly #transaction: Transaction;
  readonly #unit: SessionUnit;
  readonly #threadId: string;
  readonly #events: string[] = [];
  readonly #outbox: OutboxRow[] = [];
  /** The turn whose barrier this batch has touched; decided about once, after the last event. */
  #answered: { readonly turn: TurnRow; readonly waitingBefore: readonly string[]; readonly cause: string } | null =
    null;

  constructor(transaction: Transaction, unit: SessionUnit) {
    this.#transaction = transaction;
    this.#unit = unit;
    this.#threadId = unit.session.primaryThreadId;
  }

  async admit(event: AcceptedEvent, path: string): Promise<void> {
    switch (event.type) {
      case "user.message": {
        const content = JSON.stringify(event.content);
        const free = (await activeTurn(this.#transaction, { threadId: this.#threadId })) === null;
        const eventId = this.#append(event.type, splice({}, { content }), free);
        if (free) {
          this.#outbox.push(
            await beginTurn(this.#transaction, this.#unit, { eventId, threadId: this.#threadId, content }),
          );
        }
        return;
      }
      case "user.interrupt": {
        if (event.session_thread_id != null && event.session_thread_id !== this.#threadId) {
          throw new NotFound(
            `${path}.session_thread_id: there is no thread ${event.session_thread_id} in this session.`,
          );
        }
        await this.#decide();
        const fields = event.session_thread_id == null ? {} : { session_thread_id: event.session_thread_id };
        this.#append(event.type, splice(fields), true);
        // Messages of this batch that wait are in the ledger before the turn that they wait for ends.
        await this.#unit.flush();
        const turn = await activeTurn(this.#transaction, { threadId: this.#threadId });
        if (turn !== null) {
          this.#outbox.push(
            ...(await interruptTurn(this.#transaction, this.#unit, turn)),
            ...(await releaseStopped(this.#transaction, turn)),
          );
        }
        return;
      }
      case "system.message":
        throw new InvalidRequest(
          `${path}: the model endpoint's profile does not take system messages in the middle of a conversation.`,
          { details: { error_code: "model_does_not_support_mid_conversation_system" } },
        );
      case "user.tool_confirmation":
        return this.#confirm(event, path);
      case "user.tool_result":
        return this.#takeResult(event, path, {
          field: "tool_use_id",
          callId: event.tool_use_id,
          owner: "client_self_hosted",
        });
      case "user.custom_tool_result":
        return this.#takeResult(event, path, {
          field: "custom_tool_use_id",
          callId: event.custom_tool_use_id,
          owner: "client_custom",
        });
    }
  }

  async #confirm(event: UserToolConfirmation, path: string): Promise<void> {
    const step = await this.#step(event.tool_use_id, `${path}.tool_use_id`);
    const actions = await actionsOfEvent(this.#transaction, {
      sessionId: this.#unit.session.id,
      eventId: step.eventId,
    });
    const confirmation = actions.find((action) => action.need === "confirmation");
    if (confirmation === undefined) {
      throw new InvalidRequest(`${path}.tool_use_id: ${step.eventId} does not wait for a confirmation.`);
    }
    if (confirmation.resolution !== null) {
      throw new Conflict(
        `${path}.tool_use_id: ${step.eventId} has been answered already (${confirmation.resolution}).`,
      );
    }
    const turn = await this.#touch(step, path);
    const denyMessage = event.deny_message ?? null;
    const fields = { tool_use_id: step.eventId, result: event.result, session_thread_id: null };
    const eventId = this.#append(
      event.type,
      splice(denyMessage === null ? fields : { ...fields, deny_message: denyMessage }),
      true,
    );
    for (const action of event.result === "deny" ? actions : [confirmation]) {
      await resolveAction(this.#transaction, {
        sessionId: this.#unit.session.id,
        eventId: step.eventId,
        need: action.need,
        resolution: action.need === "confirmation" ? event.result : "closed",
        resolvedByEventId: eventId,
      });
    }
    if (event.result === "deny") {
      await refuse(this.#transaction, this.#unit, turn.threadId, step, deniedText(step.name, denyMessage));
    }
  }

  async #takeResult(
    event: UserToolResult | UserCustomToolResult,
    path: string,
    call: { readonly field: string; readonly callId: string; readonly owner: "client_self_hosted" | "client_custom" },
  ): Promise<void> {
    const where = `${path}.${call.field}`;
    const step = await this.#step(call.callId, where);
    if (step.owner !== call.owner) {
      throw new InvalidRequest(`${where}: ${step.eventId} is not answered by ${event.type}.`);
    }
    const actions = await actionsOfEvent(this.#transaction, {
      sessionId: this.#unit.session.id,
      eventId: step.eventId,
    });
    const awaited = actions.find((action) => action.need === "result");
    const content = JSON.stringify(event.content ?? []);
    const isError = event.is_error ?? false;
    if (awaited === undefined || awaited.resolution !== null) {
      await this.#repeatResult(step, where, { content, isError });
      return;
    }
    if (actions.some((action) => action.need === "confirmation" && action.resolution === null)) {
      throw new InvalidRequest(
        `${where}: ${step.eventId} waits for a confirmation; a result is accepted only after it is allowed.`,
      );
    }
    await this.#touch(step, path);
    const eventId = this.#append(
      event.type,
      splice({ [call.field]: step.eventId, is_error: isError, session_thread_id: null }, { content }),
      true,
    );
    await resolveAction(this.#transaction, {
      sessionId: this.#unit.session.id,
      eventId: step.eventId,
      need: "result",
      resolution: "result",
      resolvedByEventId: eventId,
    });
    await settleStep(this.#transaction, {
      stepId: step.id,
      state: "completed",
      result: content,
      isError,
      resultEventId: eventId,
    });
  }

  /** The same result again is answered with the stored event (a worker whose reply was lost); any other conflicts. */
  async #repeatResult(step: ToolStep, where: string, sent: { content: string; isError: boolean }): Promise<void> {
    const stored = await stepById(this.#transaction, step.id);
    const same =
      stored?.state === "completed" &&
      stored.permission !== "deny" &&
      stored.result === sent.content &&
      stored.isError === sent.isError;
    if (!same || stored.resultEventId === null) {
      throw new Conflict(`${where}: ${step.eventId} has a result already, or was closed; this one is not taken.`);
    }
    const [event] = await eventsByIds(this.#transaction, {
      sessionId: this.#unit.session.id,
      ids: [stored.resultEventId],
    });
    if (event === undefined) {
      throw new Conflict(`${where}: ${step.eventId} was answered earlier in this request.`);
    }
    this.#events.push(publicEvent(event));
  }

  async #step(eventId: string, where: string): Promise<ToolStep> {
    const step = await stepByEvent(this.#transaction, { sessionId: this.#unit.session.id, eventId });
    if (step === null || step.permission === null) {
      throw new NotFound(`${where}: there is no tool call ${eventId} in this session.`);
    }
    return step;
  }

  /** Remembers the turn whose barrier changes, with what it waited for before this batch. */
  async #touch(step: ToolStep, path: string): Promise<TurnRow> {
    if (this.#answered !== null) {
      return this.#answered.turn;
    }
    const turn = await activeTurn(this.#transaction, { threadId: this.#threadId });
    if (turn === null || turn.id !== step.turnId) {
      throw new Conflict(`${path}: the turn of ${step.eventId} has ended.`);
    }
    this.#answered = { turn, waitingBefore: await waitingFor(this.#transaction, turn), cause: newId("sevt") };
    return turn;
  }

  /** Decides about the barrier that this batch has touched. */
  async #decide(): Promise<void> {
    if (this.#answered === null) {
      return;
    }
    const { turn, ...answered } = this.#answered;
    this.#answered = null;
    this.#outbox.push(...(await settleBarrier(this.#transaction, this.#unit, turn, answered)));
  }

  #append(type: string, payload: string, processed: boolean): string {
    const id = newId("sevt");
    this.#events.push(publicEvent(this.#unit.append({ id, type, threadId: this.#threadId, payload, processed })));
    return id;
  }

  async finish(): Promise<Admitted> {
    await this.#decide();
    const queued = this.#unit.changesLedger && (await ensureWork(this.#transaction, this.#unit.session));
    await this.#unit.flush();
    return {
      events: this.#events,
      outbox: this.#outbox,
      wakeEnvironment: queued ? this.#unit.session.environmentId : null,
    };
  }
}
