/**
 * Random kills of server and worker while 20 sessions work: messages with and without tools, approvals, refusals,
 * interrupts at any moment. `CHAOS_SECONDS` says for how long, `CHAOS_SEED` repeats the plan of a run (not its timing).
 */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { testDatabase } from "../database.ts";
import { confirmation, isIdle, isTurnEnd } from "../e2e/session-driver.ts";
import { removeFolder } from "../remove-folder.ts";
import { FaultSession } from "./fault-client.ts";
import { killServer, killWorker, type ServerRun, startServer, startWorker, timePasses } from "./fault-machine.ts";
import {
  type AcceptedJob,
  outboxSettles,
  provesAcknowledged,
  provesAppendOnly,
  provesEffects,
  provesInputs,
  provesLedger,
  provesRest,
  provesUsage,
  readLedger,
} from "./fault-proof.ts";
import { AGENT_TOOLS, EDIT_FILE, EDIT_FILE_START, type JobKind, job, startFaultProvider } from "./fault-provider.ts";

const SESSIONS = 20;
const SECONDS = Number(process.env["CHAOS_SECONDS"] ?? (process.env["FAULTS"] === "full" ? 120 : 20));
const SEED = Number(process.env["CHAOS_SEED"] ?? (process.env["FAULTS"] === "full" ? Date.now() % 1_000_000 : 20_261));
const PATIENCE_MS = 120_000;

test(`${SECONDS} s of random kills, seed ${SEED}`, { timeout: (SECONDS + 300) * 1000 }, async () => {
  console.log(`CHAOS_SEED=${SEED} CHAOS_SECONDS=${SECONDS}`);
  const chance = random(SEED);
  const database = await testDatabase();
  const workspaces = await mkdtemp(path.join(tmpdir(), "mango-chaos-"));
  const mood = random(SEED - 1);
  const provider = await startFaultProvider({
    refuses: () => mood() < 0.04,
    pauseMs: () => (mood() < 0.5 ? Math.floor(mood() * 300) : 0),
  });
  const place = { connectionString: database.connectionString, modelUrl: provider.url, port: await freePort() };
  const boot = async () => {
    const server = await startServer(place);
    startWorker(server, workspaces);
    return server;
  };
  let machine: Promise<ServerRun> = boot();
  const address = async () => (await machine).url;
  const sessions: Driver[] = [];
  const kills = { server: 0, machine: 0, worker: 0 };
  const snapshots = new Map<string, Awaited<ReturnType<typeof readLedger>>>();

  /** One accident. What died comes back after a moment. */
  const accident = async () => {
    const what = pick(chance, ["server", "machine", "worker"] as const);
    kills[what] += 1;
    if (what !== "worker") await killServer(await machine);
    if (what !== "server") {
      await killWorker(workspaces);
      await timePasses(database.pool, what === "machine" ? "all" : "worker");
    }
    for (const { session } of sessions.slice(0, 3)) {
      snapshots.set(session.id, await readLedger(database.pool, session.id));
    }
    await sleep(chance() * 500);
    const since = performance.now();
    if (what === "worker") startWorker(await machine, workspaces);
    else machine = boot();
    await machine;
    // On a busy machine everything comes back slowly, and must get to work all the same.
    return performance.now() - since;
  };

  try {
    const { environmentId } = await machine;
    for (let i = 0; i < SESSIONS; i++) {
      const session = await FaultSession.open(address, environmentId, AGENT_TOOLS);
      await mkdir(path.join(workspaces, session.id), { recursive: true });
      await writeFile(path.join(workspaces, session.id, EDIT_FILE), EDIT_FILE_START);
      sessions.push(new Driver(session, `s${i}`, random(SEED + i + 1)));
    }
    const end = Date.now() + SECONDS * 1000;
    const working = Promise.all(sessions.map((driver) => driver.work(end)));
    let slowness = 0;
    while (Date.now() < end - 1000) {
      await sleep(1000 + chance() * 2000 + slowness);
      slowness = await accident();
    }
    await working;
    const wrong = (await Promise.all(sessions.map((driver) => driver.comeToRest()))).flat();
    await outboxSettles(database.pool, 30_000);
    const tally = { done: 0, unknown: 0, jobs: 0, interrupts: 0 };
    for (const driver of sessions) {
      const { session, accepted, interrupts } = driver;
      const { wrong: effects, done, unknown } = await provesEffects(database.pool, session.id, workspaces);
      const jobs = new Set(accepted.map(({ name }) => name));
      // Of a request that a crash or an interrupt cut off, nobody may have heard what it cost.
      const lost = kills.server + kills.machine + interrupts;
      const complaints = [
        ...driver.complaints,
        ...session.complaints,
        ...effects,
        ...(await provesLedger(database.pool, session.id)),
        ...(await provesRest(database.pool, session.id)),
        ...(await provesInputs(database.pool, session.id, accepted)),
        ...(await provesAcknowledged(database.pool, session.id, driver.acknowledged)),
        ...(await provesUsage(database.pool, session.id, provider, { jobs, lost })),
        ...provesAppendOnly(snapshots.get(session.id) ?? [], await readLedger(database.pool, session.id)),
      ];
      wrong.push(...complaints.map((complaint) => `${driver.name} ${session.id}: ${complaint}`));
      tally.done += done;
      tally.unknown += unknown;
      tally.jobs += accepted.length;
      tally.interrupts += interrupts;
    }
    wrong.push(...provider.complaints);
    console.log(JSON.stringify({ kills, ...tally, requests: provider.calls.size, failures: wrong.length }));
    if (wrong.length > 0) console.log(await lastWords(database.pool, wrong));
    expect(wrong, `seed ${SEED}\n${wrong.join("\n")}`).toEqual([]);
    expect(tally.done).toBeGreaterThan(0);
  } finally {
    for (const { session } of sessions) session.close();
    await machine.then(killServer, () => {});
    await killWorker(workspaces);
    await provider.close();
    await database.close();
    await removeFolder(workspaces);
  }
});

/** One client with one session: sends, waits or does not, allows, denies, interrupts. */
class Driver {
  readonly session: FaultSession;
  readonly name: string;
  readonly accepted: AcceptedJob[] = [];
  readonly acknowledged = new Set<string>();
  readonly complaints: string[] = [];
  interrupts = 0;
  readonly #chance: () => number;

  constructor(session: FaultSession, name: string, chance: () => number) {
    this.session = session;
    this.name = name;
    this.#chance = chance;
  }

  async work(end: number): Promise<void> {
    await sleep(this.#chance() * 1000);
    while (Date.now() < end) {
      const luck = this.#chance();
      if (luck < 0.7) await this.#send([this.#message()]);
      else if (luck < 0.8) await this.#send([this.#message(), this.#message()]);
      else if (luck < 0.9) await this.#send([this.#interrupt(), this.#message()]);
      else await this.#send([this.#message(), this.#interrupt()]);
      await this.#meanwhile(end);
    }
  }

  /** Answers what is asked until the session stands still; what is wrong when it never does. */
  async comeToRest(): Promise<string[]> {
    const until = Date.now() + PATIENCE_MS;
    const rests = () => {
      const last = this.session.events.findLast(({ type }) => type !== "user.interrupt");
      return (
        last !== undefined && this.#sawAll() && last.type === "session.status_idle" && !isIdle("requires_action")(last)
      );
    };
    while (Date.now() < until) {
      if (await this.session.until(() => rests() || this.session.asked().length > 0, 1000)) {
        if (rests()) return [];
        await this.#answerAll(1);
      }
    }
    const last = this.session.events.at(-1);
    return [
      `${this.name} ${this.session.id}: never came to rest; the last event is ${last?.type} at ${this.session.events.length}`,
    ];
  }

  #sawAll(): boolean {
    const seen = new Set(this.session.events.map(({ id }) => id));
    return [...this.acknowledged].every((id) => seen.has(id));
  }

  /** What a person does while the agent works. */
  async #meanwhile(end: number): Promise<void> {
    const mood = this.#chance();
    if (mood < 0.15) return;
    if (mood < 0.35) {
      await sleep(this.#chance() * 400);
      await this.#send([this.#interrupt()]);
      return;
    }
    const turnEnds = () => this.session.events.filter(isTurnEnd).length;
    const before = turnEnds();
    while (Date.now() < end && turnEnds() === before) {
      await this.session.until(() => turnEnds() > before || this.session.asked().length > 0, 1000);
      if (this.session.asked().length === 0) continue;
      if (this.#chance() < 0.15) await this.#send([this.#interrupt()]);
      else await this.#answerAll(0.75);
    }
  }

  async #answerAll(allow: number): Promise<void> {
    for (const asked of this.session.asked()) {
      const answer = await this.session.post(confirmation(asked, this.#chance() < allow ? "allow" : "deny"));
      if (answer.status === 200) for (const { id } of answer.body.data) this.acknowledged.add(id);
      // Answered by an interrupt of ours that the stream has not shown yet.
      else if (answer.status !== 409)
        this.complaints.push(`a confirmation was answered ${answer.status}: ${JSON.stringify(answer.body)}`);
      await this.session.until(
        (events) => answer.status !== 200 || events.some(({ id }) => id === answer.body.data[0].id),
        10_000,
      );
    }
  }

  async #send(events: readonly (ReturnType<typeof job> | { readonly type: "user.interrupt" })[]): Promise<void> {
    const ids = await this.session.send(...events);
    for (const [index, event] of events.entries()) {
      const id = ids[index] ?? "";
      this.acknowledged.add(id);
      if ("content" in event) this.accepted.push({ name: event.content[0]?.text.split(" ")[1] ?? "", eventId: id });
      else this.interrupts += 1;
    }
  }

  #count = 0;
  #message() {
    const kinds: readonly JobKind[] = ["say", "say", "bash", "bash", "bash", "ask", "full"];
    this.#count += 1;
    return job(`${this.name}-${this.#count}`, pick(this.#chance, kinds));
  }

  #interrupt() {
    return { type: "user.interrupt" } as const;
  }
}

/** The end of the ledgers of the sessions that are named. */
async function lastWords(database: Parameters<typeof readLedger>[0], wrong: readonly string[]): Promise<string> {
  const ids = new Set(wrong.flatMap((text) => /sesn_\w+/.exec(text)?.[0] ?? []));
  const ledgers = [...ids].slice(0, 3).map(async (id) => {
    const rows = (await readLedger(database, id)).slice(-30);
    const { rows: turns } = await database.query(
      "select id, ordinal, segment, state, retries from turns where session_id = $1 order by ordinal desc limit 3",
      [id],
    );
    const { rows: work } = await database.query(
      "select id, state, lease_expires_at, stop_requested_at from work_items where session_id = $1 order by created_at desc limit 3",
      [id],
    );
    return [
      id,
      ...rows.map(({ seq, type, payload }) => `${seq} ${type} ${payload.slice(0, 160)}`),
      JSON.stringify({ turns, work }),
    ].join("\n");
  });
  return (await Promise.all(ledgers)).join("\n\n");
}

function pick<T>(chance: () => number, from: readonly T[]): T {
  return from[Math.floor(chance() * from.length)] as T;
}

/** Mulberry32: numbers from 0 up to 1 that a seed repeats. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Outside the range that the system gives to outgoing connections: nobody takes it while the server is away. */
async function freePort(): Promise<number> {
  for (let port = 20_000 + (process.pid % 8_000); ; port++) {
    const probe = createServer();
    const free = await new Promise<boolean>((resolve) =>
      probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)),
    );
    probe.close();
    if (free) return port;
  }
}
