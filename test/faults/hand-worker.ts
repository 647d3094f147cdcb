/** A worker by hand: the protocol's calls one by one, against a server whose session waits for its one call. */
import type { Event } from "../e2e/event-feed.ts";
import { calls, type ScriptedServer, says, toolUse } from "../e2e/scripted-model.ts";
import { message, SessionDriver, toolset } from "../e2e/session-driver.ts";

export interface HandWork {
  readonly id: string;
  readonly state: string;
  readonly data: { readonly id: string };
  readonly secret: string | null;
}
export interface HeldWork {
  readonly id: string;
  readonly token: string;
}
/** A refusal has `error`, a list `data`. */
export type HandAnswer = HandWork & {
  readonly data: Event[];
  readonly error?: { readonly message: string; readonly details?: { readonly error_code?: string } };
};

export const NO_HEARTBEAT = "heartbeat?expected_last_heartbeat=NO_HEARTBEAT";
export const tokenOf = (work: HandWork): string =>
  (JSON.parse(Buffer.from(work.secret ?? "", "base64url").toString()) as { sessions_token: string }).sessions_token;

export class HandWorker {
  readonly #scripted: ScriptedServer;

  constructor(scripted: ScriptedServer) {
    this.#scripted = scripted;
  }

  /** A session whose model makes these calls (one `bash` unless given) and then says "Done."; it waits for them. */
  async waiting(
    options: {
      readonly uses?: readonly (readonly [id: string, name: string, input: object])[];
      readonly tools?: readonly object[];
    } = {},
  ): Promise<{ readonly session: SessionDriver; readonly uses: readonly Event[] }> {
    const uses: NonNullable<typeof options.uses> = options.uses ?? [["toolu_1", "bash", { command: "ls" }]];
    await this.#scripted.script(calls(...uses.map((use) => toolUse(...use))), says("Done."));
    const session = await SessionDriver.open(this.#scripted.server, { tools: options.tools ?? [toolset()] });
    await session.send(message("go"));
    return { session, uses: await session.untilAsked() };
  }

  async ask(key: string, path: string, json?: unknown): Promise<{ status: number; body: HandAnswer }> {
    const response = await this.#scripted.server.request(path, { key, ...(json !== undefined && { json }) });
    return { status: response.status, body: JSON.parse((await response.text()) || "null") };
  }

  work(path: string): string {
    return `/v1/environments/${this.#scripted.server.environmentId}/work/${path}`;
  }

  async poll(query = ""): Promise<HandWork | null> {
    return (await this.ask(this.#scripted.server.environmentKey, this.work(`poll${query}`))).body as HandWork | null;
  }

  stop(key: string, id: string, json: object = {}) {
    return this.ask(key, this.work(`${id}/stop`), json);
  }

  /** Stops with the environment key, as a launcher does. */
  handBack(id: string) {
    return this.stop(this.#scripted.server.environmentKey, id);
  }

  async claimed(query = ""): Promise<HeldWork> {
    const item = await this.poll(query);
    if (item === null) throw new Error("There was no work for a session that waits for a worker.");
    return { id: item.id, token: tokenOf(item) };
  }

  /** A claim whose token opens its session: acknowledged, without a heartbeat. */
  async acknowledged(query = ""): Promise<HeldWork> {
    const item = await this.claimed(query);
    const ack = await this.ask(this.#scripted.server.environmentKey, this.work(`${item.id}/ack`), {});
    if (ack.status !== 200) throw new Error(`Not acknowledged: ${ack.status}`);
    return item;
  }

  /** A worker that has beaten once. */
  async active(query = ""): Promise<HeldWork> {
    const item = await this.acknowledged(query);
    const beat = await this.ask(item.token, this.work(`${item.id}/${NO_HEARTBEAT}`), {});
    if (beat.body.state !== "active") throw new Error(`Not active: ${beat.status}`);
    return item;
  }

  async items() {
    const { rows } = await this.#scripted.server.database.pool.query<{ id: string; state: string; held: boolean }>(
      "select id, state, token_digest is not null as held from work_items order by created_at, id",
    );
    return rows;
  }

  /** Every lease ran out so many seconds ago. */
  async expireLeases(secondsAgo = 1): Promise<void> {
    await this.#scripted.server.database.pool.query(
      "update work_items set lease_expires_at = now() - make_interval(secs => $1) where lease_expires_at is not null",
      [secondsAgo],
    );
  }

  /** What waits because workers achieved nothing may be claimed now. */
  async endBackoff(): Promise<void> {
    await this.#scripted.server.database.pool.query("update work_items set not_before = null");
  }
}
