import { afterAll, beforeAll, describe, expect } from "vitest";
import { calls, held, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { type Api, allPages, apiOf, type Body, expectError, ids } from "./api.ts";
import { customTool, isIdle, message, newSession, send, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
/** Seven sessions, oldest first. */
const made: Body[] = [];
beforeAll(async () => {
  scripted = await startScriptedServer();
  api = apiOf(scripted.server);
  for (let n = 0; n < 7; n += 1) made.push(await newSession(api, scripted.server.environmentId));
});
afterAll(() => scripted.close());

const at = (n: number): Body => {
  const session = made[n];
  if (session === undefined) throw new Error(`No session ${n}.`);
  return session;
};
/** The made sessions among those listed; tests below create others. */
const listed = async (query: string) => ids((await allPages(api, `/v1/sessions?${query}`)).items);
const among = async (query: string) => (await listed(query)).filter((id) => ids(made).includes(id));
const page = (query: string, cursor: string | null = null) =>
  api.read(`/v1/sessions?${query}${cursor === null ? "" : `&page=${encodeURIComponent(cursor)}`}`);
const span = () => `created_at[gte]=${at(0).created_at}&created_at[lte]=${at(6).created_at}`;

verifies("session-list:order", async () => {
  const oldestFirst = ids(made);
  expect(await among("limit=1000")).toEqual(oldestFirst.toReversed());
  expect(await among("limit=1000&order=desc")).toEqual(oldestFirst.toReversed());
  expect(await among("limit=1000&order=asc")).toEqual(oldestFirst);
});
verifies("session-list:order", "each item is the session as it is read", async () => {
  const { data } = await page(`${span()}&limit=1`);
  const read = await api.read(`/v1/sessions/${data[0]?.id}`);
  expect({ ...data[0], stats: null }).toEqual({ ...read, stats: null });
});

describe("both cursors", () => {
  for (const order of ["asc", "desc"]) {
    for (const limit of [1, 2, 3, 7]) {
      verifies("session-list:next", `${order}, ${limit} a page`, async () => {
        const { items, sizes } = await allPages(api, `/v1/sessions?${span()}&order=${order}&limit=${limit}`);
        expect(ids(items)).toEqual(order === "asc" ? ids(made) : ids(made).toReversed());
        expect(Math.max(...sizes)).toBe(limit);
      });
      verifies("session-list:prev", `${order}, ${limit} a page`, async () => {
        const query = `${span()}&order=${order}&limit=${limit}`;
        const forward: string[][] = [];
        let current = await page(query);
        expect(current.prev_page).toBeNull();
        for (;;) {
          forward.push(ids(current.data));
          if (current.next_page === null) break;
          current = await page(query, current.next_page);
        }
        const backward = [ids(current.data)];
        while (current.prev_page !== null) {
          current = await page(query, current.prev_page);
          backward.unshift(ids(current.data));
        }
        expect(backward).toEqual(forward);
        expect(current.prev_page).toBeNull();
        if (forward.length > 1) expect(ids((await page(query, current.next_page)).data)).toEqual(forward[1]);
      });
    }
  }

  verifies("session-list:order-change", async () => {
    const first = await page("order=desc&limit=2");
    for (const query of ["order=asc&limit=2"]) {
      expectError(
        await api.get(`/v1/sessions?${query}&page=${encodeURIComponent(first.next_page ?? "")}`),
        400,
        /page|order/,
      );
    }
    const second = await page("order=asc&limit=2", (await page("order=asc&limit=2")).next_page);
    for (const cursor of [second.next_page, second.prev_page]) {
      expectError(
        await api.get(`/v1/sessions?order=desc&limit=2&page=${encodeURIComponent(cursor ?? "")}`),
        400,
        /page|order/,
      );
    }
  });
  verifies("session-list:order-change", "a cursor brings its own order when none is said", async () => {
    const first = await page("order=asc&limit=2");
    const answer = await api.get(`/v1/sessions?limit=2&page=${encodeURIComponent(first.next_page ?? "")}`);
    if (answer.status === 200)
      expect(ids(answer.body.data)).toEqual(ids((await page("order=asc&limit=2", first.next_page)).data));
    else expectError(answer, 400, /page|order/);
  });

  verifies("session-list:created-at-excludes", async () => {
    const first = await page("order=asc&limit=3");
    const [cursor, excluded] = [encodeURIComponent(first.next_page ?? ""), at(6).created_at];
    expectError(
      await api.get(`/v1/sessions?order=asc&limit=3&created_at[gt]=${excluded}&page=${cursor}`),
      400,
      /page|created_at/,
    );
  });

  verifies("session-list:filters-may-change", "limit", async () => {
    const first = await page("order=asc&limit=2");
    const second = await page("order=asc&limit=4", first.next_page);
    expect(ids(second.data)).toHaveLength(4);
    expect(ids(first.data)).not.toContain(second.data[0]?.id);
  });
  verifies("session-list:filters-may-change", "statuses[] and include_archived", async () => {
    const first = await page("order=asc&limit=2");
    const plain = await page("order=asc&limit=2", first.next_page);
    const filtered = await page("order=asc&limit=2&statuses[]=idle&include_archived=true", first.next_page);
    expect(ids(filtered.data)).toEqual(ids(plain.data));
  });

  verifies("session-list:inserts", async () => {
    const first = await page("limit=3");
    const fresh = await newSession(api, scripted.server.environmentId);
    const second = await page("limit=3", first.next_page);
    expect(ids(second.data)).not.toContain(fresh.id);
    expect(ids(first.data).filter((id) => ids(second.data).includes(id))).toEqual([]);
    const back = await page("limit=3", second.prev_page);
    expect(ids(back.data)).toEqual(ids(first.data));
    expect(ids((await page("limit=3", back.prev_page)).data)).toEqual([fresh.id]);
  });
});

describe("filters", () => {
  verifies("session-list:agent", async () => {
    const agent = await api.write("/v1/agents", { name: "Own", model: "m" });
    const create = () => api.write("/v1/sessions", { agent: agent.id, environment_id: scripted.server.environmentId });
    const first = await create();
    await api.write(`/v1/agents/${agent.id}`, { name: "Own 2" });
    const second = await create();
    expect(await listed(`agent_id=${agent.id}`)).toEqual([second.id, first.id]);
    expect(await listed(`agent_id=${agent.id}&agent_version=1`)).toEqual([first.id]);
    expect(await listed(`agent_id=${agent.id}&agent_version=2`)).toEqual([second.id]);
    expect(await listed(`agent_id=${agent.id}&agent_version=3`)).toEqual([]);
    expect(await listed("agent_id=agent_nothing")).toEqual([]);
    expect((await allPages(api, `/v1/sessions?agent_id=${agent.id}&limit=1`)).sizes).toEqual([1, 1]);
  });

  verifies("session-list:statuses", async () => {
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, "At last."));
    const running = await newSession(api, scripted.server.environmentId, {
      session: { initial_events: [message("go")] },
    });
    const ended = await newSession(api, scripted.server.environmentId);
    await api.write(`/v1/sessions/${ended.id}/archive`);
    const idle = at(0).id;
    const found = async (query: string) =>
      (await listed(`include_archived=true&${query}`)).filter((id) => [running.id, ended.id, idle].includes(id));
    expect(await found("statuses[]=running")).toEqual([running.id]);
    expect(await found("statuses[]=idle")).toEqual([idle]);
    expect(await found("statuses[]=terminated")).toEqual([ended.id]);
    expect(await found("statuses[]=idle&statuses[]=running")).toEqual([running.id, idle]);
    expect(await found("statuses[]=rescheduling")).toEqual([]);
    gate.resolve();
    await until(api, running, isIdle("end_turn"));
    expect(await found("statuses[]=running")).toEqual([]);
  });

  verifies("session-list:requires-action", async () => {
    await scripted.script(calls(toolUse("toolu_1", "lookup", {})), says("Done."));
    const session = await newSession(api, scripted.server.environmentId, { agent: { tools: [customTool("lookup")] } });
    await send(api, session, message("look"));
    const [use] = (await until(api, session, isIdle("requires_action"))).filter(
      ({ type }) => type === "agent.custom_tool_use",
    );
    expect(await listed("stop_reasons[]=requires_action")).toEqual([session.id]);
    await send(api, session, { type: "user.custom_tool_result", custom_tool_use_id: use?.id });
    await until(api, session, isIdle("end_turn"));
    expect(await listed("stop_reasons[]=requires_action")).toEqual([]);
    expect(await listed("stop_reasons[]=end_turn&stop_reasons[]=requires_action")).toContain(session.id);
  });

  verifies("session-list:archived", async () => {
    const session = await newSession(api, scripted.server.environmentId);
    await api.write(`/v1/sessions/${session.id}/archive`);
    expect(await listed("limit=100")).not.toContain(session.id);
    expect(await listed("include_archived=false")).not.toContain(session.id);
    expect(await listed("include_archived=true")).toContain(session.id);
  });

  for (const [bound, expected] of [
    ["gt", [4, 5, 6]],
    ["gte", [3, 4, 5, 6]],
    ["lt", [0, 1, 2]],
    ["lte", [0, 1, 2, 3]],
  ] as const) {
    verifies("session-list:created-at", bound, async () => {
      const found = await among(`order=asc&created_at[${bound}]=${encodeURIComponent(at(3).created_at)}`);
      expect(found).toEqual(expected.map((n) => at(n).id));
    });
  }
  verifies("session-list:created-at", "both ends, with another time zone", async () => {
    const shifted = new Date(Date.parse(at(5).created_at) + 2 * 3_600_000).toISOString().replace("Z", "+02:00");
    const query = `order=asc&created_at[gt]=${at(2).created_at}&created_at[lte]=${encodeURIComponent(shifted)}`;
    expect(await among(query)).toEqual([3, 4, 5].map((n) => at(n).id));
  });

  verifies("session-list:unbuilt", async () => {
    expect(await page("deployment_id=depl_1")).toEqual({ data: [], next_page: null, prev_page: null });
    expect(await page("memory_store_id=memstore_1")).toEqual({ data: [], next_page: null, prev_page: null });
  });

  for (const [query, names] of [
    ["limit=0", "limit"],
    ["limit=1001", "limit"],
    ["order=newest", "order"],
    ["statuses[]=asleep", "statuses"],
    ["created_at[gt]=yesterday", "created_at"],
    ["created_at[lte]=2026-13-01T00:00:00Z", "created_at"],
    ["agent_version=0", "agent_version"],
    ["include_archived=maybe", "include_archived"],
    ["page=nonsense", "page"],
    ["page=", "page"],
  ] as const) {
    verifies("session-list:bad-query", query, async () => {
      expectError(await api.get(`/v1/sessions?${query}`), 400, names);
    });
  }
});
