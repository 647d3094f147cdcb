import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type ByHand, startByHand } from "../../test/faults/by-hand.ts";
import { newId } from "../contract/ids.ts";
import { endLostClaims } from "./lost-claims.ts";
import { notePoll } from "./queue-stats.ts";
import { tendWork } from "./upkeep.ts";

let hand: ByHand;
beforeAll(async () => {
  hand = await startByHand();
});
afterAll(() => hand.close());
beforeEach(async () => {
  await hand.database.pool.query("delete from work_items");
});

const ref = () => ({ workspaceId: "wrkspc_hand", environmentId: hand.environmentId });

/** A health check in this state, created so many seconds ago, with a lease that ends in so many. */
async function check(state: string, ageSeconds: number, leaseSeconds: number | null): Promise<string> {
  const id = newId("work");
  await hand.database.pool.query(
    `insert into work_items (id, workspace_id, environment_id, healthcheck_id, state, created_at, lease_expires_at)
     values ($1, $2, $3, $1, $4, now() - make_interval(secs => $5), now() + make_interval(secs => $6))`,
    [id, ref().workspaceId, ref().environmentId, state, ageSeconds, leaseSeconds],
  );
  return id;
}
const ends = async () =>
  Object.fromEntries(
    (
      await hand.database.pool.query<{ id: string; state: string; outcome: string | null }>(
        "select id, state, outcome from work_items",
      )
    ).rows.map(({ id, state, outcome }) => [id, [state, outcome]]),
  );

test("health checks end: those whose lease ran out, and those that nobody waits for any more", async () => {
  const lost = await check("active", 10, -1);
  const forgotten = await check("queued", 61, null);
  const abandoned = await check("active", 61, 30);
  const waiting = await check("queued", 10, null);
  const answering = await check("active", 10, 30);
  await tendWork(hand.product);
  expect(await ends()).toEqual({
    [lost]: ["stopped", "lost"],
    [forgotten]: ["stopped", "withdrawn"],
    [abandoned]: ["stopped", "withdrawn"],
    [waiting]: ["queued", null],
    [answering]: ["active", null],
  });
});

test("workers that have not polled for a day are forgotten", async () => {
  await notePoll(hand.database.pool, ref(), "gone");
  await notePoll(hand.database.pool, ref(), "here");
  await hand.database.pool.query(
    "update environment_pollers set polled_at = now() - interval '25 h' where worker_id = 'gone'",
  );
  await tendWork(hand.product);
  const { rows } = await hand.database.pool.query("select worker_id from environment_pollers");
  expect(rows).toEqual([{ worker_id: "here" }]);
});

test("a lease that could not be judged stays out of everybody's reach until the next look", async () => {
  const lost = await check("active", 10, -1);
  const database = {
    query: hand.database.pool.query.bind(hand.database.pool),
    connect: () => Promise.reject(new Error("The database is away.")),
  } as unknown as typeof hand.product.database;
  expect(await endLostClaims({ ...hand.product, database })).toBe(0);
  expect(await ends()).toEqual({ [lost]: ["active", null] });
  expect(hand.warnings.at(-1)).toMatchObject({ fields: { work_id: lost, error: "Error" } });
  expect(await endLostClaims(hand.product)).toBe(1);
});

test("each environment's poll judges its own leases", async () => {
  const lost = await check("active", 10, -1);
  expect(await endLostClaims(hand.product, { environmentId: "env_other" })).toBe(0);
  expect(await endLostClaims(hand.product, ref())).toBe(1);
  expect(await ends()).toEqual({ [lost]: ["stopped", "lost"] });
});
