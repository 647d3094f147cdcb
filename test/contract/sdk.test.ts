/** The whole life of the resources through both official SDKs, unmodified. */
import { afterAll, beforeAll, describe, expect } from "vitest";
import { calls, held, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { API_KEY } from "../server.ts";
import { checkedFetch } from "./answer-check.ts";
import { type Client as AnyClient, VERSIONS } from "./sdk-clients.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
});
afterAll(() => scripted.close());

const text = (value: string) => ({ type: "text" as const, text: value });
const message = (value: string) => ({ type: "user.message" as const, content: [text(value)] });
const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};
const names = (items: readonly { readonly name: string }[]) => items.map(({ name }) => name);
const idsOf = (items: readonly { readonly id: string }[]) => items.map(({ id }) => id);

describe.each(VERSIONS)("SDK %s", (version, Client) => {
  let requests = 0;
  let client: AnyClient;
  let environmentId: string;
  beforeAll(() => {
    const fetch: typeof globalThis.fetch = (input, init) => {
      requests += 1;
      return checkedFetch(input, init);
    };
    client = new Client({ baseURL: scripted.server.url, apiKey: API_KEY, fetch });
    environmentId = scripted.server.environmentId;
  });
  const newSession = async (tools: readonly object[] = []) => {
    const agent = await client.beta.agents.create({ name: `Of ${version}`, model: "m", tools: tools as never });
    return client.beta.sessions.create({ agent: agent.id, environment_id: environmentId });
  };
  const history = (sessionId: string, limit = 5) => collect(client.beta.sessions.events.list(sessionId, { limit }));
  /** The stream's events up to the idle that ends the turn. */
  const turn = async (
    sessionId: string,
    value: string,
    params: object = {},
    onType: (type: string) => unknown = () => {},
  ) => {
    const stream = await client.beta.sessions.events.stream(sessionId, params);
    await client.beta.sessions.events.send(sessionId, { events: [message(value)] });
    const seen = [];
    for await (const event of stream) {
      seen.push(event);
      onType(event.type);
      if (event.type === "session.status_idle") break;
    }
    return seen;
  };

  verifies("sdk:agents", version, async () => {
    const { agents } = client.beta;
    const agent = await agents.create({
      name: "First",
      model: { id: "m", effort: "low" },
      system: "S",
      skills: [],
      metadata: { a: "1" },
      tools: [
        { type: "agent_toolset_20260401", configs: [{ name: "bash", permission_policy: { type: "always_ask" } }] },
      ],
    });
    expect(agent).toMatchObject({ type: "agent", version: 1, name: "First", metadata: { a: "1" } });
    for (const name of ["Second", "Third", "Fourth"]) await agents.update(agent.id, { name, metadata: { a: null } });
    expect(await agents.retrieve(agent.id)).toMatchObject({ name: "Fourth", version: 4, metadata: {} });
    expect(await agents.retrieve(agent.id, { version: 2 })).toMatchObject({ name: "Second", version: 2 });
    const versions = await collect(agents.versions.list(agent.id, { limit: 3 }));
    expect(names(versions)).toEqual(["Fourth", "Third", "Second", "First"]);
    for (let n = 0; n < 4; n += 1) await agents.create({ name: `Page ${n}`, model: "m" });
    const paged = await collect(agents.list({ limit: 2, "created_at[gte]": agent.created_at }));
    expect(names(paged)).toEqual(["Page 3", "Page 2", "Page 1", "Page 0", "Fourth"]);
    expect((await agents.archive(agent.id)).archived_at).not.toBeNull();
    expect(idsOf(await collect(agents.list({ limit: 2 })))).not.toContain(agent.id);
    expect(idsOf(await collect(agents.list({ limit: 2, include_archived: true })))).toContain(agent.id);
  });

  verifies("sdk:environments", version, async () => {
    const { environments } = client.beta;
    const environment = await environments.create({ name: "E", config: { type: "self_hosted" }, metadata: { a: "1" } });
    expect(environment).toMatchObject({ type: "environment", config: { type: "self_hosted" } });
    expect(await environments.update(environment.id, { name: "E2", metadata: { a: null } })).toMatchObject({
      name: "E2",
      metadata: {},
    });
    expect((await environments.retrieve(environment.id)).name).toBe("E2");
    const others = [await environments.create({ name: "O1" }), await environments.create({ name: "O2" })];
    const listed = idsOf(await collect(environments.list({ limit: 1 })));
    expect(listed.slice(0, 3)).toEqual([others[1]?.id, others[0]?.id, environment.id]);
    expect((await environments.archive(environment.id)).archived_at).not.toBeNull();
    expect(await environments.delete(environment.id)).toEqual({ id: environment.id, type: "environment_deleted" });
  });

  verifies("sdk:sessions", version, async () => {
    const { agents, sessions } = client.beta;
    const agent = await agents.create({ name: "A", model: "m" });
    await agents.update(agent.id, { name: "A2" });
    const common = { environment_id: environmentId, vault_ids: [] as string[], resources: [] };
    const bare = await sessions.create({ agent: agent.id, ...common });
    const pinned = await sessions.create({ agent: { type: "agent", id: agent.id, version: 1 }, ...common, title: "T" });
    const overridden = await sessions.create({
      agent: { type: "agent_with_overrides", id: agent.id, system: "Own", model: "other" },
      ...common,
    });
    expect([bare.agent.version, pinned.agent.version, overridden.agent.system]).toEqual([2, 1, "Own"]);
    const updated = await sessions.update(pinned.id, { title: "T2", metadata: { k: "v" } });
    expect([updated.title, updated.metadata]).toEqual(["T2", { k: "v" }]);
    expect(await sessions.retrieve(pinned.id)).toMatchObject({ title: "T2", status: "idle" });
    expect(idsOf(await collect(sessions.list({ agent_id: agent.id, statuses: ["idle"], limit: 2 })))).toEqual(
      idsOf([overridden, pinned, bare]),
    );
    expect(idsOf(await collect(sessions.list({ agent_id: agent.id, agent_version: 1 })))).toEqual([pinned.id]);
    expect((await sessions.archive(bare.id)).status).toBe("terminated");
    expect(await sessions.delete(bare.id)).toEqual({ id: bare.id, type: "session_deleted" });
    await expect(sessions.retrieve(bare.id)).rejects.toBeInstanceOf(Client.NotFoundError);
  });

  verifies("sdk:sessions:pages", version, async () => {
    const { agents, sessions } = client.beta;
    const agent = await agents.create({ name: "A", model: "m" });
    const made: string[] = [];
    for (let n = 0; n < 5; n += 1)
      made.push((await sessions.create({ agent: agent.id, environment_id: environmentId })).id);
    for (const order of ["asc", "desc"] as const) {
      const expected = order === "asc" ? made : made.toReversed();
      const query = { agent_id: agent.id, order, limit: 2 };
      expect(idsOf(await collect(sessions.list(query)))).toEqual(expected);
      const first = await sessions.list(query);
      const second = await first.getNextPage();
      const third = await second.getNextPage();
      expect([first, second, third].map((page) => idsOf(page.data))).toEqual([
        expected.slice(0, 2),
        expected.slice(2, 4),
        expected.slice(4),
      ]);
      expect([first.hasNextPage(), second.hasNextPage(), third.hasNextPage()]).toEqual([true, true, false]);
      const back = await sessions.list({ ...query, page: third.prev_page ?? "" });
      expect(idsOf(back.data)).toEqual(expected.slice(2, 4));
      const start = await sessions.list({ ...query, page: back.prev_page ?? "" });
      expect([idsOf(start.data), start.prev_page]).toEqual([expected.slice(0, 2), null]);
    }
  });

  verifies("sdk:events", version, async () => {
    const session = await newSession();
    await turn(session.id, "one");
    await turn(session.id, "two");
    const { events } = client.beta.sessions;
    const all = await history(session.id);
    expect(all.filter(({ type }) => type === "user.message")).toHaveLength(2);
    expect((await history(session.id, 1000)).map(({ id }) => id)).toEqual(all.map(({ id }) => id));
    const desc = await collect(events.list(session.id, { order: "desc", limit: 4 }));
    expect(idsOf(desc)).toEqual(idsOf(all).toReversed());
    const some = await collect(events.list(session.id, { types: ["user.message", "agent.message"], limit: 3 }));
    expect(some.map(({ type }) => type)).toEqual(["user.message", "agent.message", "user.message", "agent.message"]);
    const from = all.at(-3)?.processed_at ?? "";
    const late = await collect(events.list(session.id, { "created_at[gte]": from }));
    expect(idsOf(late)).toEqual(idsOf(all.filter(({ processed_at }) => (processed_at ?? "") >= from)));
    const sent = await events.send(session.id, { events: [{ type: "user.interrupt" }] });
    expect(sent.data?.map(({ type }) => type)).toEqual(["user.interrupt"]);
  });

  verifies("sdk:stream", version, async () => {
    const session = await newSession();
    const seen = await turn(session.id, "hello");
    const types = seen.map(({ type }) => type);
    expect(types).toContain("agent.message");
    expect(types.at(-1)).toBe("session.status_idle");
    // 0.120.0 drops names that it does not know.
    const known = version === "0.120.0" ? types.filter((type) => type !== "session.usage") : types;
    const listed = (await history(session.id)).map(({ type }) => type);
    expect(new Set(known)).toEqual(
      new Set(version === "0.120.0" ? listed.filter((type) => type !== "session.usage") : listed),
    );
  });

  verifies("sdk:stream:deltas", version, async () => {
    const session = await newSession();
    const words = "Once upon a time there was a mango that kept every promise.";
    const gate = Promise.withResolvers<void>();
    await scripted.script(held(gate.promise, words));
    const params = { event_deltas: ["agent.message", "agent.thinking"] };
    // Held until the first delta is seen: previews may be shed under load.
    const seen = await turn(session.id, "tell", params, (type) => type === "event_delta" && gate.resolve());
    await scripted.script();
    const final = seen.find(({ type }) => type === "agent.message") as { id: string; content: { text: string }[] };
    const deltas = seen.flatMap((event) =>
      event.type === "event_delta" && event.event_id === final.id ? [event.delta] : [],
    );
    expect(seen.filter((event) => event.type === "event_start").map((event) => event.event)).toEqual([
      { type: "agent.message", id: final.id },
    ]);
    expect(deltas.length).toBeGreaterThan(0);
    const said = deltas.map((delta) => (delta as { content: { text: string } }).content.text).join("");
    expect(final.content[0]?.text.startsWith(said)).toBe(true);
    expect(final.content[0]?.text).toBe(words);
  });

  verifies("sdk:stream:reconcile", version, async () => {
    const session = await newSession();
    const seen = new Map<string, string>();
    const first = await client.beta.sessions.events.stream(session.id);
    await client.beta.sessions.events.send(session.id, { events: [message("one"), message("two"), message("three")] });
    for await (const event of first) {
      if ("id" in event) seen.set(event.id, event.type);
      if (event.type === "span.model_request_start") break;
    }
    // The cut. Then as the reference says: open, list, drop what is known.
    const second = await client.beta.sessions.events.stream(session.id);
    for (const event of await history(session.id, 3)) seen.set(event.id, event.type);
    const idle = [...seen.values()].includes("session.status_idle");
    if (!idle) {
      for await (const event of second) {
        if ("id" in event) seen.set(event.id, event.type);
        if (event.type === "session.status_idle") break;
      }
    }
    second.controller.abort();
    const ledger = await history(session.id, 1000);
    const usage = ledger.filter(({ type, id }) => type === "session.usage" && !seen.has(id)).map(({ id }) => id);
    if (version !== "0.120.0") expect(usage).toEqual([]);
    expect(new Set([...seen.keys(), ...usage])).toEqual(new Set(idsOf(ledger)));
  });

  verifies("sdk:threads", version, async () => {
    const session = await newSession();
    const { threads } = client.beta.sessions;
    const [thread] = await collect(threads.list(session.id));
    const params = { session_id: session.id };
    expect(await threads.retrieve(thread?.id ?? "", params)).toMatchObject({ id: thread?.id, type: "session_thread" });
    const stream = await threads.events.stream(thread?.id ?? "", params);
    await client.beta.sessions.events.send(session.id, { events: [message("hello")] });
    const types: string[] = [];
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "session.status_idle") break;
    }
    expect(types).toContain("agent.message");
    const listed = await collect(threads.events.list(thread?.id ?? "", { ...params, limit: 3 }));
    expect(idsOf(listed)).toEqual(idsOf(await history(session.id)));
  });

  verifies("sdk:tools", version, async () => {
    const lookup = { type: "custom", name: "lookup", description: "d", input_schema: { type: "object" } };
    const bash = { name: "bash", permission_policy: { type: "always_ask" } };
    const session = await newSession([lookup, { type: "agent_toolset_20260401", configs: [bash] }]);
    await scripted.script(
      calls(toolUse("toolu_1", "bash", { command: "ls" }), toolUse("toolu_2", "lookup", {})),
      says("Done."),
    );
    const asked = await turn(session.id, "go");
    const use = asked.find(({ type }) => type === "agent.tool_use") as { id: string };
    const own = asked.find(({ type }) => type === "agent.custom_tool_use") as { id: string };
    expect(asked.at(-1)).toMatchObject({ stop_reason: { type: "requires_action", event_ids: [use.id, own.id] } });
    const { events } = client.beta.sessions;
    const stream = await events.stream(session.id);
    await events.send(session.id, {
      events: [{ type: "user.tool_confirmation", tool_use_id: use.id, result: "allow" }],
    });
    await events.send(session.id, {
      events: [
        { type: "user.custom_tool_result", custom_tool_use_id: own.id, content: [text("42")] },
        { type: "user.tool_result", tool_use_id: use.id, content: [text("a.txt")], is_error: false },
      ],
    });
    for await (const event of stream) {
      if (event.type === "session.status_idle" && event.stop_reason.type === "end_turn") break;
    }
    await scripted.script();
    expect((await history(session.id)).filter(({ type }) => type === "agent.message")).toHaveLength(1);
  });

  verifies("sdk:errors", version, async () => {
    const agent = await client.beta.agents.create({ name: "A", model: "m" });
    const before = requests;
    await expect(client.beta.agents.update(agent.id, { version: 7, name: "B" })).rejects.toBeInstanceOf(
      Client.ConflictError,
    );
    expect(requests - before).toBe(1);
    await expect(client.beta.agents.retrieve("agent_nothing")).rejects.toBeInstanceOf(Client.NotFoundError);
    await expect(client.beta.agents.create({ name: "", model: "m" })).rejects.toBeInstanceOf(Client.BadRequestError);
    await expect(client.beta.environments.create({ name: "E", config: { type: "cloud" } })).rejects.toBeInstanceOf(
      Client.UnprocessableEntityError,
    );
    const stranger = new Client({ baseURL: scripted.server.url, apiKey: "sk-mango-nobody", maxRetries: 0 });
    const refused = await stranger.beta.agents.list().catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Client.AuthenticationError);
    expect(refused).toMatchObject({ status: 401, requestID: expect.stringMatching(/^req_/) });
  });
});
