/**
 * One scripted turn on a machine that may lose power at a chosen point: three rounds, two calls at once, a call that a
 * person allows, a request that the provider refuses once, and a second message that is sent meanwhile.
 */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { testDatabase } from "../database.ts";
import { confirmation, isTurnEnd } from "../e2e/session-driver.ts";
import { removeFolder } from "../remove-folder.ts";
import { FaultSession } from "./fault-client.ts";
import { type Crashed, killServer, killWorker, type ServerRun, startServer, timePasses } from "./fault-machine.ts";
import type { CrashPoint } from "./fault-points.ts";
import {
  type AcceptedJob,
  outboxSettles,
  provesAppendOnly,
  provesEffects,
  provesInputs,
  provesLedger,
  provesRest,
  provesUsage,
  readLedger,
} from "./fault-proof.ts";
import { AGENT_TOOLS, EDIT_FILE, EDIT_FILE_START, job, jobsOf, startFaultProvider } from "./fault-provider.ts";

/** How long a client waits for what never comes; nothing is asserted about time. */
const PATIENCE_MS = 120_000;

export interface Outcome {
  /** Null when the point was never reached. */
  readonly crashed: Crashed | null;
  /** Without a crash: the points that were passed. */
  readonly points: readonly string[];
  readonly wrong: readonly string[];
  /** Calls that took effect, and calls of which the model was told that nobody knows. */
  readonly done: number;
  readonly unknown: number;
}

export async function playScenario(crash?: CrashPoint): Promise<Outcome> {
  const database = await testDatabase();
  const workspaces = await mkdtemp(path.join(tmpdir(), "mango-faults-"));
  let refused = false;
  const provider = await startFaultProvider({
    refuses({ job, round }) {
      const first = job === "one" && round === 0 && !refused;
      refused ||= first;
      return first;
    },
  });
  const place = { connectionString: database.connectionString, modelUrl: provider.url, workspaces };
  const wrong: string[] = [];
  let before: Awaited<ReturnType<typeof readLedger>> = [];
  let crashed: Crashed | null = null;
  let session: FaultSession | undefined;
  let over = false;

  let machine: Promise<ServerRun> = startServer({ ...place, ...(crash === undefined ? {} : { crash }) });
  const first = await machine;
  const comesBack = first.gone.then((point) => {
    if (point === null || over) return;
    crashed = point;
    machine = (async () => {
      await killWorker(workspaces);
      const { rows } = await database.pool.query<{ id: string }>("select id from sessions");
      if (rows[0] !== undefined) before = await readLedger(database.pool, rows[0].id);
      await timePasses(database.pool, "all");
      return startServer(place);
    })();
    // Whoever asks for the address hears of it.
    machine.catch(() => {});
  });

  try {
    session = await FaultSession.open(async () => (await machine).url, first.environmentId, AGENT_TOOLS);
    const { id } = session;
    await mkdir(path.join(workspaces, id), { recursive: true });
    await writeFile(path.join(workspaces, id, EDIT_FILE), EDIT_FILE_START);
    const accepted: AcceptedJob[] = [];
    const accept = async (name: string, kind: "full" | "say") => {
      const [eventId] = await (session as FaultSession).send(job(name, kind));
      accepted.push({ name, eventId: eventId ?? "" });
    };

    await accept("one", "full");
    const follow = session;
    if (!(await follow.until(() => follow.asked().length > 0, PATIENCE_MS))) wrong.push("nobody was ever asked");
    const [asked] = follow.asked();
    await accept("two", "say");
    if (asked !== undefined) await follow.send(confirmation(asked, "allow"));
    const atEnd = (count: number) => follow.until((events) => events.filter(isTurnEnd).length >= count, PATIENCE_MS);
    if (!(await atEnd(1))) wrong.push(`the turns never ended; the last event is ${follow.events.at(-1)?.type}`);
    const prove = async (endTurns: number) => {
      await outboxSettles(database.pool, 20_000);
      wrong.push(
        ...(await provesLedger(database.pool, id)),
        ...(await provesRest(database.pool, id, { endTurns })),
        ...(await provesInputs(database.pool, id, accepted)),
        ...provesAppendOnly(before, await readLedger(database.pool, id)),
      );
    };
    await prove(1);

    // What the model is shown next is all of it, once, in order.
    await accept("probe", "say");
    if (!(await atEnd(2))) wrong.push("a message after the crash is not answered");
    await prove(2);
    const shown = jobsOf(provider.newest("probe") ?? []).join();
    if (shown !== "one,two,probe") wrong.push(`the model was shown ${shown}`);
    const jobs = new Set(["one", "two", "probe"]);
    wrong.push(...(await provesUsage(database.pool, id, provider, { jobs, lost: crashed === null ? 0 : 1 })));
    const effects = await provesEffects(database.pool, id, workspaces);
    wrong.push(...effects.wrong, ...provider.complaints, ...follow.complaints);
    const listed = (await follow.list()).map((event) => event.id);
    const streamed = new Set(follow.events.map((event) => event.id));
    if (listed.length !== streamed.size || listed.some((one) => !streamed.has(one))) {
      wrong.push(`${listed.length} events are listed, ${streamed.size} were streamed`);
    }
    over = true;
    const points = crash === undefined ? await (await machine).stop() : [];
    return { crashed, points, wrong: [...new Set(wrong)], done: effects.done, unknown: effects.unknown };
  } finally {
    over = true;
    session?.close();
    await machine.then(killServer, () => {});
    await comesBack;
    await killWorker(workspaces);
    await provider.close();
    await database.close();
    await removeFolder(workspaces);
  }
}
