import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type ByHand, type HandSession, startByHand } from "../../test/faults/by-hand.ts";
import type { Product } from "../product.ts";
import { reconcile } from "./reconcile.ts";

let hand: ByHand;
let product: Product;
/** The turn whose execution is gone. */
let lost: HandSession;
const go = { type: "user.message", content: [{ type: "text", text: "go" }] };
/** More than one look takes up. */
const WAITING = 220;

beforeAll(async () => {
  hand = await startByHand();
  const { pool } = hand.database;
  const session = await hand.open();
  // Copies of one session, each with a turn that has waited for a person for longer than the lost one has stood still.
  await pool.query(
    `with session as (
       insert into sessions (id, workspace_id, environment_id, agent_id, agent_version, metadata, agent, runtime, status,
                             primary_thread_id, last_hash, last_processed_at, created_at, updated_at)
       select 'sesn_' || n, workspace_id, environment_id, agent_id, agent_version, metadata, agent, runtime, 'idle',
              'sthr_' || n, last_hash, now() - interval '12 hours', created_at, updated_at
         from sessions, generate_series(1, $2::int) n where id = $1 returning *
     ), thread as (
       insert into threads (id, session_id, workspace_id, status, created_at, updated_at)
       select primary_thread_id, id, workspace_id, 'idle', created_at, updated_at from session
     )
     insert into turns (id, workspace_id, session_id, thread_id, ordinal, trigger_event_id, state, created_at)
     select 'turn_waiting_' || id, workspace_id, id, primary_thread_id, 1, 'sevt_none', 'parked', now() from session`,
    [session.id, WAITING],
  );
  const find = async ({ name }: { name: string }) =>
    name.startsWith("turn_waiting_") ? ("running" as const) : ("ended" as const);
  product = { ...hand.product, orchestrator: { ...hand.product.orchestrator, find } };
});
afterAll(() => hand.close());

beforeEach(async () => {
  lost = await hand.open();
  await lost.send(go);
  await hand.database.pool.query("delete from outbox");
  await hand.database.pool.query(
    "update sessions set last_processed_at = now() - interval '11 minutes' where id = $1",
    [lost.id],
  );
});

const look = () => reconcile(product, { idleSeconds: 600 });

test("a turn that stands still is found at the first look, however many wait for people", async () => {
  expect(await look()).toBe(1);
  expect(await lost.turn()).toMatchObject({ segment: 2, state: "running" });
});

test("one that waits for people is found too, in the end", async () => {
  await hand.database.pool.query("update turns set state = 'parked' where session_id = $1", [lost.id]);
  // By lot: it is passed over 50 times once in 10^50.
  for (let looks = 0; looks < 50 && (await lost.turn())?.segment === 1; looks += 1) await look();
  expect(await lost.turn()).toMatchObject({ segment: 2 });
});
