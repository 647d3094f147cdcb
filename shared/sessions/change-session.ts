import type { SessionAgent } from "../contract/agents.ts";
import { Conflict, InvalidRequest } from "../contract/errors.ts";
import { newId } from "../contract/ids.ts";
import { patchMetadata } from "../contract/schema.ts";
import type { Session, UpdateSession } from "../contract/sessions.ts";
import type { Transaction } from "../db/transaction.ts";
import { splice } from "../ledger/event.ts";
import type { OutboxRow } from "../outbox/outbox.ts";
import type { Capabilities } from "../permissions/capabilities.ts";
import { resolveRuntime } from "../permissions/resolve-runtime.ts";
import { pinnedProfile } from "../permissions/runtime.ts";
import { releaseStopped } from "../turns/await-actions.ts";
import { interruptTurn } from "../turns/interrupt.ts";
import { activeTurn } from "../turns/turn-row.ts";
import { replaceTools } from "./pinned-agent.ts";
import { lockSession, type SessionRow } from "./session-row.ts";
import { SessionUnit } from "./session-unit.ts";
import { getSession, noSession, type SessionRef } from "./sessions.ts";

/** What changes a session from outside its turns: update, archive, delete. Each holds the session's lock. */

/**
 * Changes title, metadata, or the session's own tools, and tells the streams what changed. Nothing changed: no event.
 * New tools meet the endpoint's profile that the session was pinned with, and what the server itself runs today.
 */
export async function updateSession(
  transaction: Transaction,
  ref: SessionRef,
  params: { readonly managed: Capabilities["managed"]; readonly change: UpdateSession },
): Promise<Session> {
  const { change } = params;
  const row = await lockLiving(transaction, ref);
  if (row.archivedAt !== null) {
    throw new InvalidRequest(`Session ${row.id} is archived; it cannot be changed.`);
  }
  const current = await getSession(transaction, ref);
  const title = change.title === undefined ? current.title : change.title;
  const metadata = patchMetadata(current.metadata, change.metadata);
  const agent = change.agent === undefined ? current.agent : newTools(row, current.agent, change.agent);
  const changed = {
    ...(title === current.title ? {} : { title }),
    ...(sameJson(sorted(metadata), sorted(current.metadata)) ? {} : { metadata }),
    ...(sameJson(agent, current.agent) ? {} : { agent }),
  };
  if (Object.keys(changed).length === 0) {
    return current;
  }
  await transaction.query("update sessions set title = $2, metadata = $3 where id = $1", [
    row.id,
    title,
    JSON.stringify(metadata),
  ]);
  if ("agent" in changed) {
    await pinAnew(transaction, row, agent, params.managed);
  }
  const unit = new SessionUnit(transaction, row);
  // An emptied bag is absent from the event, as the contract has it.
  const told = "metadata" in changed && Object.keys(metadata).length === 0 ? omit(changed, "metadata") : changed;
  unit.append({ id: newId("sevt"), type: "session.updated", threadId: row.primaryThreadId, payload: splice(told) });
  await unit.flush();
  return getSession(transaction, ref);
}

/** The session's tools from the next turn on. What earlier requests were made with stays readable as their revision. */
async function pinAnew(
  transaction: Transaction,
  row: SessionRow,
  agent: SessionAgent,
  managed: Capabilities["managed"],
): Promise<void> {
  const capabilities = { provider: row.runtime.provider, profile: pinnedProfile(row.runtime), managed };
  const runtime = JSON.stringify(resolveRuntime(agent, capabilities, row.runtime.environment));
  await transaction.query(
    `with session as (
       update sessions set agent = $2, runtime = $3, runtime_revision = runtime_revision + 1 where id = $1
       returning id, workspace_id, runtime_revision
     )
     insert into session_runtimes (session_id, revision, workspace_id, runtime, created_at)
     select id, runtime_revision, workspace_id, $3, $4 from session`,
    [row.id, JSON.stringify(agent), runtime, row.now],
  );
}

function newTools(row: SessionRow, agent: SessionAgent, change: NonNullable<UpdateSession["agent"]>): SessionAgent {
  if (row.status !== "idle" || row.stopReason === "requires_action") {
    throw new Conflict(`agent: session ${row.id} is not idle; its tools can be replaced between turns only.`);
  }
  return replaceTools(agent, change);
}

/** Ends a session for good; its history stays readable. Archiving again changes nothing. */
export async function archiveSession(
  transaction: Transaction,
  ref: SessionRef,
): Promise<{ session: Session; outbox: OutboxRow[] }> {
  const row = await lockLiving(transaction, ref);
  if (row.archivedAt !== null) {
    return { session: await getSession(transaction, ref), outbox: [] };
  }
  assertNotRunning(row, "archived");
  const unit = new SessionUnit(transaction, row);
  const outbox = await endOpenTurn(transaction, unit);
  unit.terminate(row.primaryThreadId, "archived");
  await unit.flush();
  await transaction.query("update sessions set archived_at = $2 where id = $1", [row.id, row.now]);
  await transaction.query("update threads set archived_at = $2 where session_id = $1", [row.id, row.now]);
  await endWork(transaction, row.id);
  return { session: await getSession(transaction, ref), outbox };
}

/**
 * Deletes a session: from the commit on nothing may write to it and nobody finds it; its streams end with
 * `session.deleted`, its work ends, its waiting execution is told to stop.
 */
export async function deleteSession(transaction: Transaction, ref: SessionRef): Promise<{ outbox: OutboxRow[] }> {
  const row = await lockLiving(transaction, ref);
  assertNotRunning(row, "deleted");
  const unit = new SessionUnit(transaction, row);
  const outbox = await endOpenTurn(transaction, unit);
  await unit.flush();
  await transaction.query("update sessions set deleting_at = $2 where id = $1", [row.id, row.now]);
  await endWork(transaction, row.id);
  return { outbox };
}

async function lockLiving(transaction: Transaction, ref: SessionRef): Promise<SessionRow> {
  const row = await lockSession(transaction, ref);
  if (row === null || row.deletingAt !== null) {
    throw noSession(ref.sessionId);
  }
  return row;
}

function assertNotRunning(row: SessionRow, what: string): void {
  if (row.status === "running" || row.status === "rescheduling") {
    throw new Conflict(
      `Session ${row.id} is ${row.status}; it cannot be ${what}. Send user.interrupt and wait for session.status_idle.`,
    );
  }
}

/** A turn that waits for people is closed like an interrupted one. */
async function endOpenTurn(transaction: Transaction, unit: SessionUnit): Promise<OutboxRow[]> {
  const turn = await activeTurn(transaction, { threadId: unit.session.primaryThreadId });
  if (turn === null) {
    return [];
  }
  const ended = await interruptTurn(transaction, unit, turn, { startNext: false });
  return [...ended, ...(await releaseStopped(transaction, turn))];
}

async function endWork(transaction: Transaction, sessionId: string): Promise<void> {
  await transaction.query(
    `update work_items set state = 'stopped', token_digest = null, stopped_at = now(), stop_requested_at = coalesce(stop_requested_at, now())
      where session_id = $1 and state <> 'stopped'`,
    [sessionId],
  );
}

function sameJson(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function sorted(metadata: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
}

function omit(fields: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([key]) => key !== name));
}
