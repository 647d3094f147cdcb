/** Every kind of key on every route of the OpenAPI document. */
import { afterAll, beforeAll, expect } from "vitest";
import { type ScriptedServer, startScriptedServer } from "../e2e/scripted-model.ts";
import { apiOf, type Body, expectEnvelope, rowCounts } from "./api.ts";
import { isIdle, message, until } from "./driver.ts";
import { KINDS, type Kind, type Row, TABLE, type World } from "./key-table.ts";
import { type KeyWorld, keyWorld, probe, tokenOf } from "./key-world.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let world: KeyWorld;
beforeAll(async () => {
  scripted = await startScriptedServer();
  world = await keyWorld(scripted);
});
afterAll(() => scripted.close());

/** What to probe with, and the key to do it: where the probe would change the world, things of its own. */
async function subject(row: Row, kind: Kind): Promise<{ readonly ids: World; readonly key: string }> {
  if (row[kind] === 200 && row.destroys === "thing") return { ids: await world.fresh(), key: world.keys[kind] };
  if ((row[kind] === 200 && row.destroys === "claim") || (row[kind] !== 404 && kind === "claim")) {
    const { ids, token } = await world.claim(kind !== "claim");
    return { ids, key: kind === "work" || kind === "claim" ? token : world.keys[kind] };
  }
  return { ids: world.ids, key: world.keys[kind] };
}

for (const [route, row] of Object.entries(TABLE)) {
  for (const kind of KINDS) {
    verifies("tenancy:key-kinds", `${route} with ${kind}: ${row[kind]}`, async () => {
      const { ids, key } = await subject(row, kind);
      const before = await rowCounts(scripted.server);
      const answer = await probe(scripted, route, row, ids, key);
      expect({ status: answer.status, text: answer.text }).toMatchObject({ status: row[kind] });
      if (row[kind] === 200) return;
      expectEnvelope(answer);
      expect(await rowCounts(scripted.server)).toEqual(before);
    });
  }
}

const work = (ids: World, call: string) => `/v1/environments/${ids.environment}/work/${ids.work}/${call}`;
const expire = (ids: World) =>
  scripted.server.database.pool.query("update work_items set lease_expires_at = now() - interval '1 s' where id = $1", [
    ids.work,
  ]);
/** Claims that item; claims of earlier probes that nobody acknowledged may be given out before it. */
async function claimAgain(ids: World): Promise<Body> {
  const worker = apiOf(scripted.server, world.keys.environment);
  for (;;) {
    const claimed: Body | null = await worker.read(`/v1/environments/${world.ids.environment}/work/poll`);
    if (claimed === null) throw new Error("The item is not given out again.");
    if (claimed.id === ids.work) return claimed;
  }
}

/** Keys that open nothing, each with how it came to that; 401 on every route. */
const DEAD: Readonly<Record<string, () => Promise<string | null>>> = {
  "no key": async () => null,
  garbage: async () => "sk-mango-ses-garbage",
  "the id of a key": async () => world.ids.key,
  "a token whose claim was rotated away by the next poll": async () => {
    const { ids, token } = await world.claim(false);
    await scripted.server.database.pool.query(
      "update work_items set claimed_at = now() - interval '1 min' where id = $1",
      [ids.work],
    );
    const again = await claimAgain(ids);
    expect([again.id, tokenOf(again) === token]).toEqual([ids.work, false]);
    return token;
  },
  "a token whose item was handed back": async () => {
    const { ids, token } = await world.claim(true);
    await apiOf(scripted.server, world.keys.environment).write(work(ids, "stop"));
    return token;
  },
  "a token whose item was stopped": async () => {
    const { ids, token } = await world.claim(true);
    await world.api.write(work(ids, "stop"), { force: true });
    return token;
  },
  "a token whose lease has run out": async () => {
    const { ids, token } = await world.claim(true);
    await expire(ids);
    return token;
  },
  "a token whose item was reclaimed": async () => {
    const { ids, token, session } = await world.claim(true);
    await apiOf(scripted.server, token).write(work(ids, "heartbeat?expected_last_heartbeat=NO_HEARTBEAT"));
    await expire(ids);
    expect(await claimAgain(ids)).toMatchObject({ id: ids.work, state: "queued" });
    // The call that its owner may have begun is closed, and the turn goes on without it.
    await until(world.api, session, isIdle("end_turn"));
    return token;
  },
  "a revoked environment key": async () => {
    const key = await world.api.write(`/v1/environments/${world.ids.environment}/keys`, { name: "revoked" });
    await world.api.write(`/v1/environments/${world.ids.environment}/keys/${key.id}/revoke`);
    return String(key["secret"]);
  },
  "the secret of an environment key before its rotation": async () => {
    const key = await world.api.write(`/v1/environments/${world.ids.environment}/keys`, { name: "rotated" });
    await world.api.write(`/v1/environments/${world.ids.environment}/keys/${key.id}/rotate`);
    return String(key["secret"]);
  },
};
for (const [name, make] of Object.entries(DEAD)) {
  verifies("tenancy:dead-keys", name, async () => {
    const key = await make();
    const before = await rowCounts(scripted.server);
    const statuses: Record<string, number> = {};
    for (const [route, row] of Object.entries(TABLE)) {
      const answer = await probe(scripted, route, row, world.ids, key);
      expectEnvelope(answer);
      statuses[route] = answer.status;
    }
    expect(statuses).toEqual(Object.fromEntries(Object.keys(TABLE).map((route) => [route, 401])));
    expect(await rowCounts(scripted.server)).toEqual(before);
  });
}

verifies("tenancy:key-kinds", "a work token posts results and nothing else", async () => {
  const worker = apiOf(scripted.server, world.keys.work);
  const path = `/v1/sessions/${world.ids.session}/events`;
  for (const event of [
    message("hello"),
    { type: "user.interrupt" },
    { type: "user.tool_confirmation", tool_use_id: "sevt_1", result: "allow" },
  ]) {
    const answer = await worker.post(path, { events: [event] });
    expect([event.type, answer.status]).toEqual([event.type, 403]);
  }
});

verifies("tenancy:key-kinds", "an environment key does not stop or fail what another key claimed", async () => {
  const { ids } = await world.claim(true);
  const second = await world.api.write(`/v1/environments/${ids.environment}/keys`, { name: "second" });
  const worker = apiOf(scripted.server, String(second["secret"]));
  for (const [call, body] of [["ack"], ["stop"], ["stop", { force: true }], ["fail", { message: "x" }]] as const) {
    expect([call, (await worker.post(work(ids, call), body)).status]).toEqual([call, 403]);
  }
  expect((await world.api.read(work(ids, "").slice(0, -1)))["state"]).toBe("starting");
});

verifies("tenancy:key-kinds", "a rotated environment key still holds what it claimed before", async () => {
  const { ids } = await world.claim(true);
  const made = await world.api.write(`/v1/environments/${ids.environment}/keys`, { name: "rotates" });
  await scripted.server.database.pool.query("update work_items set claimed_by_key = $2 where id = $1", [
    ids.work,
    made.id,
  ]);
  const rotated = await world.api.write(`/v1/environments/${ids.environment}/keys/${made.id}/rotate`);
  const answer = await apiOf(scripted.server, String(rotated["secret"])).post(work(ids, "stop"));
  expect([answer.status, answer.body["state"]]).toEqual([200, "queued"]);
});
