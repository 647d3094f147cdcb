/** Turns in the contract's tests: events by type, and waiting for the ledger to hold them. */
import { setTimeout as sleep } from "node:timers/promises";
import { calls as makesCalls, type ScriptedServer, says, toolUse } from "../e2e/scripted-model.ts";
import type { Api, Body } from "./api.ts";

export const text = (value: string) => ({ type: "text", text: value });
export const message = (value: string) => ({ type: "user.message", content: [text(value)] });
export const customTool = (name: string) => ({
  type: "custom",
  name,
  description: "The application's.",
  input_schema: { type: "object", properties: { q: { type: "string" } } },
});
export const builtin = (configs: readonly object[] = [], more: object = {}) => ({
  type: "agent_toolset_20260401",
  configs,
  ...more,
});
export const asking = (name: string) => ({ name, permission_policy: { type: "always_ask" } });

/** A session of a new agent. */
export async function newSession(
  api: Api,
  environment_id: string,
  more: { readonly agent?: object; readonly session?: object } = {},
): Promise<Body> {
  const agent = await api.write("/v1/agents", { name: "Tester", model: "test-1", ...more.agent });
  return api.write("/v1/sessions", { agent: agent.id, environment_id, ...more.session });
}

export const send = async (api: Api, session: Body, ...events: readonly object[]) =>
  (await api.write(`/v1/sessions/${session.id}/events`, { events })).data;
export const post = (api: Api, session: Body, ...events: readonly object[]) =>
  api.post(`/v1/sessions/${session.id}/events`, { events });
export const list = async (api: Api, session: Body, query = "") =>
  (await api.read(`/v1/sessions/${session.id}/events?limit=1000${query}`)).data;
export const status = async (api: Api, session: Body) => (await api.read(`/v1/sessions/${session.id}`)).status;

/** Waits until the ledger holds `count` events that match, and gives all of them. */
export async function until(
  api: Api,
  session: Body,
  matches: (event: Body) => boolean,
  count = 1,
  patienceMs = 10_000,
): Promise<readonly Body[]> {
  for (let tries = 0; tries < patienceMs / 25; tries += 1) {
    const events = await list(api, session);
    if (events.filter(matches).length >= count) return events;
    await sleep(25);
  }
  const seen = (await list(api, session)).map(({ type }) => type).join(", ");
  throw new Error(`Waited in vain. Seen: ${seen}`);
}

export const isIdle =
  (reason?: string) =>
  (event: Body): boolean =>
    event.type === "session.status_idle" && (reason === undefined || event.stop_reason.type === reason);

/** Sends a message and waits for the end of its turn; the whole ledger then. */
export async function runTurn(api: Api, session: Body, value: string): Promise<readonly Body[]> {
  const before = (await list(api, session)).filter(isIdle()).length;
  await send(api, session, message(value));
  return until(api, session, isIdle(), before + 1);
}

export const ofType = (events: readonly Body[], type: string) => events.filter((event) => event.type === type);
export const types = (events: readonly Body[]) => events.map(({ type }) => type);

/** The calls that the newest idle waits for. */
export function required(events: readonly Body[]): readonly string[] {
  return events.findLast(isIdle())?.stop_reason.event_ids ?? [];
}

/** A session whose model makes these calls and then says "Done."; at its first idle. */
export async function called(
  scripted: ScriptedServer,
  api: Api,
  tools: readonly object[],
  ...calls: readonly (readonly [id: string, name: string, input: object])[]
) {
  const provider = await scripted.script(makesCalls(...calls.map((call) => toolUse(...call))), says("Done."));
  const session = await newSession(api, scripted.server.environmentId, { agent: { tools } });
  await send(api, session, message("do it"));
  const events = await until(api, session, isIdle());
  return { provider, session, events, uses: events.filter(({ type }) => /^agent\..*tool_use$/.test(type)) };
}
export const customResult = (use: Body | undefined, value = "found") => ({
  type: "user.custom_tool_result",
  custom_tool_use_id: use?.id,
  content: [text(value)],
});
export const toolResult = (use: Body | undefined, value = "ok") => ({
  type: "user.tool_result",
  tool_use_id: use?.id,
  content: [text(value)],
});
export const confirmation = (use: Body | undefined, result: unknown, more: object = {}) => ({
  type: "user.tool_confirmation",
  tool_use_id: use?.id,
  result,
  ...more,
});
