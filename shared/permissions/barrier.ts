import type { Transaction } from "../db/transaction.ts";
import { isSettled, type ToolStep } from "../journal/tool-steps.ts";
import type { Need } from "./gate.ts";

/** One thing that a turn waits for: a person's confirmation, or a worker's or application's result. */
export interface PendingAction {
  readonly eventId: string;
  readonly need: Need;
  readonly stepId: string;
  readonly turnId: string;
  readonly resolution: "allow" | "deny" | "result" | "closed" | null;
  readonly resolvedByEventId: string | null;
}

interface Row {
  event_id: string;
  need: Need;
  step_id: string;
  turn_id: string;
  resolution: PendingAction["resolution"];
  resolved_by_event_id: string | null;
}

const COLUMNS = "event_id, need, step_id, turn_id, resolution, resolved_by_event_id";

function toAction(row: Row): PendingAction {
  return {
    eventId: row.event_id,
    need: row.need,
    stepId: row.step_id,
    turnId: row.turn_id,
    resolution: row.resolution,
    resolvedByEventId: row.resolved_by_event_id,
  };
}

/** The events that an idle session names in `requires_action`, in the order of their calls. */
export function waitingEventIds(actions: readonly PendingAction[]): string[] {
  return [...new Set(actions.filter((action) => action.resolution === null).map((action) => action.eventId))];
}

/** The server-side calls that may run and have no result. A started one is among them: `runTool` judges whether it was lost. */
export function runnableSteps(steps: readonly ToolStep[], actions: readonly PendingAction[]): string[] {
  return steps
    .filter((step) => step.owner === "platform_managed" && !isSettled(step))
    .filter((step) => step.permission === "allow" || (step.permission === "ask" && wasAllowed(step, actions)))
    .map((step) => step.id);
}

function wasAllowed(step: ToolStep, actions: readonly PendingAction[]): boolean {
  return actions.some(
    (action) => action.stepId === step.id && action.need === "confirmation" && action.resolution === "allow",
  );
}

export async function raiseBarrier(
  transaction: Transaction,
  owner: { readonly workspaceId: string; readonly sessionId: string; readonly turnId: string },
  needs: readonly { readonly eventId: string; readonly stepId: string; readonly need: Need }[],
): Promise<void> {
  await transaction.query(
    `insert into pending_actions (session_id, workspace_id, turn_id, created_at, event_id, step_id, need)
     select $1, $2, $3, now(), * from unnest($4::text[], $5::text[], $6::text[])`,
    [
      owner.sessionId,
      owner.workspaceId,
      owner.turnId,
      needs.map((need) => need.eventId),
      needs.map((need) => need.stepId),
      needs.map((need) => need.need),
    ],
  );
}

/** All actions of one round's calls, resolved ones included, in the order of the calls. */
export async function actionsOfSteps(
  transaction: Transaction,
  sessionId: string,
  steps: readonly Pick<ToolStep, "eventId">[],
): Promise<PendingAction[]> {
  const eventIds = steps.map((step) => step.eventId);
  // By the primary key: the table holds every session's actions for ever.
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from pending_actions where session_id = $1 and event_id = any($2::text[]) order by need`,
    [sessionId, eventIds],
  );
  return rows.map(toAction).sort((one, other) => eventIds.indexOf(one.eventId) - eventIds.indexOf(other.eventId));
}

/** The actions on one published call; empty when there is no such call in the session. */
export async function actionsOfEvent(
  transaction: Transaction,
  params: { readonly sessionId: string; readonly eventId: string },
): Promise<PendingAction[]> {
  const { rows } = await transaction.query<Row>(
    `select ${COLUMNS} from pending_actions where session_id = $1 and event_id = $2`,
    [params.sessionId, params.eventId],
  );
  return rows.map(toAction);
}

export async function resolveAction(
  transaction: Transaction,
  params: {
    readonly sessionId: string;
    readonly eventId: string;
    readonly need: Need;
    readonly resolution: "allow" | "deny" | "result" | "closed";
    readonly resolvedByEventId: string;
  },
): Promise<void> {
  await transaction.query(
    `update pending_actions set resolution = $4, resolved_by_event_id = $5, resolved_at = now()
      where session_id = $1 and event_id = $2 and need = $3 and resolution is null`,
    [params.sessionId, params.eventId, params.need, params.resolution, params.resolvedByEventId],
  );
}
