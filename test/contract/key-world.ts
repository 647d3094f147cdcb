/** A workspace whose session has a call that waits for the worker which has claimed it, and a key of every kind. */
import { calls, type ScriptedServer, says, toolUse } from "../e2e/scripted-model.ts";
import { API_KEY } from "../server.ts";
import { type Answer, type Api, apiOf, type Body } from "./api.ts";
import { builtin, isIdle, message, newSession, send, until } from "./driver.ts";
import { type Kind, NOUNS, type Row, type World } from "./key-table.ts";

export interface KeyWorld {
  readonly api: Api;
  readonly ids: World;
  readonly victim: Body;
  readonly keys: Readonly<Record<Kind, string>>;
  /** A session of the environment with an open call, and its item, claimed with the environment's key. */
  claim(acknowledged: boolean): Promise<{ readonly ids: World; readonly token: string; readonly session: Body }>;
  /** Things of one's own to destroy, so that the world stays. */
  fresh(): Promise<World>;
}

export const tokenOf = (work: Body): string =>
  JSON.parse(Buffer.from(String(work["secret"]), "base64url").toString()).sessions_token;

/** An environment with a key. */
async function environmentOf(api: Api, name: string): Promise<{ id: string; key: string; secret: string }> {
  const { id } = await api.write("/v1/environments", { name });
  const key = await api.write(`/v1/environments/${id}/keys`, { name: "contract" });
  return { id, key: key.id, secret: String(key["secret"]) };
}

export async function keyWorld(scripted: ScriptedServer): Promise<KeyWorld> {
  const api = apiOf(scripted.server);
  const mine = await environmentOf(api, "Secret environment");
  const other = await environmentOf(api, "Another environment");
  const spare = await api.write(`/v1/environments/${mine.id}/keys`, { name: "spare" });

  const claimIn = async (environment: { id: string; secret: string }, acknowledged: boolean) => {
    await scripted.script(calls(toolUse("toolu_1", "bash", { command: "ls" })), says("Done."));
    const session = await newSession(api, environment.id, { agent: { tools: [builtin()] } });
    await send(api, session, message("a secret task"));
    await until(api, session, isIdle("requires_action"));
    const worker = apiOf(scripted.server, environment.secret);
    // Claims of earlier probes that nobody acknowledged come back to the queue.
    let work = await worker.read(`/v1/environments/${environment.id}/work/poll`);
    while ((work["data"] as unknown as Body).id !== session.id) {
      work = await worker.read(`/v1/environments/${environment.id}/work/poll`);
    }
    if (acknowledged) await worker.write(`/v1/environments/${environment.id}/work/${work.id}/ack`);
    // Nobody beats for it, and the table is long.
    await scripted.server.database.pool.query(
      "update work_items set lease_expires_at = now() + interval '1 hour' where id = $1 and state = 'starting'",
      [work.id],
    );
    const [thread] = (await api.read(`/v1/sessions/${session.id}/threads`)).data;
    const ids = {
      agent: session.agent.id,
      environment: environment.id,
      session: session.id,
      thread: thread?.id ?? "",
      work: work.id,
      key: spare.id,
    };
    return { ids, token: tokenOf(work), session };
  };
  const victim = await claimIn(mine, true);
  const stranger = await claimIn(other, true);
  return {
    api,
    ids: victim.ids,
    victim: victim.session,
    keys: {
      api: API_KEY,
      environment: mine.secret,
      otherEnvironment: other.secret,
      work: victim.token,
      otherWork: stranger.token,
      claim: (await claimIn(mine, false)).token,
    },
    claim: (acknowledged) => claimIn(mine, acknowledged),
    async fresh() {
      const environment = await environmentOf(api, "Fresh");
      const session = await newSession(api, scripted.server.environmentId);
      return {
        ...victim.ids,
        agent: session.agent.id,
        environment: environment.id,
        key: environment.key,
        session: session.id,
      };
    },
  };
}

/** The request of a row with these ids; a stream is given up once it has answered. */
export async function probe(
  scripted: ScriptedServer,
  route: string,
  row: Row,
  ids: World,
  key: string | null,
): Promise<Answer> {
  const [method = "", template = ""] = route.split(" ");
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[NOUNS[name] ?? "agent"]) + (row.query ?? "");
  const abort = new AbortController();
  const body = row.body?.(ids);
  const init = { method, key, signal: abort.signal, ...(body !== undefined && { json: body, method }) };
  const response = await scripted.server.request(path, init);
  const streams = response.headers.get("content-type")?.startsWith("text/event-stream");
  const text = streams ? "{}" : await response.text();
  abort.abort();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}
