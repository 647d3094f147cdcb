import { readFile } from "node:fs/promises";
import pg from "pg";
import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient, type BenchSession } from "./client.ts";
import { scratchPostgres } from "./scratch-postgres.ts";
import { startServerProcess } from "./server-process.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const SHORT = 50;
const LONG = 5000;
const TURNS = 60;
const SESSIONS = 50;
const MANY_TURNS = 10_000;

/** A turn of a session with a long past costs little more than one with a short past. */
export async function longTranscripts(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const postgres = await scratchPostgres();
  const server = await startServerProcess(model.url, { databaseUrl: postgres.connectionString });
  const client = new BenchClient(server.url);
  const database = new pg.Client({ connectionString: postgres.connectionString });
  await database.connect();
  const measure = async (entries: number) => {
    const session = await client.session(server.environmentId, []);
    await fillTranscript(database, session.id, entries / 2);
    const samples: number[] = [];
    for (let turn = 0; turn < TURNS; turn += 1) {
      samples.push(await session.turn("hello"));
    }
    session.close();
    return percentile(samples.slice(10), 0.5);
  };
  const short = await measure(SHORT);
  const long = await measure(LONG);
  await database.end();
  await server.stop();
  await postgres.stop();
  await model.close();
  return [
    {
      what: "a turn after 5,000 transcript entries against 50, p50 ms",
      measured: `${fixed(long)} / ${fixed(short)} = ×${(long / short).toFixed(2)}`,
      target: "≤ ×3",
      met: long / short <= 3,
    },
  ];
}

/** Ended turns with a question and an answer each. */
async function fillTranscript(database: pg.Client, sessionId: string, turns: number): Promise<void> {
  await database.query(
    `with session as (select id, workspace_id, primary_thread_id from sessions where id = $1),
          turn as (
            insert into turns (id, workspace_id, session_id, thread_id, ordinal, trigger_event_id, state, created_at, ended_at)
            select 'turn_' || right(id, 12) || '_' || n, workspace_id, id, primary_thread_id, n, 'sevt_fill', 'completed', now(), now()
              from session, generate_series(1, $2::int) n returning id, session_id, workspace_id, thread_id
          )
     insert into transcript_entries (turn_id, ordinal, id, workspace_id, session_id, thread_id, role, content, provider, model,
                                     tool_version, profile_version, created_at)
     select turn.id, entry, 'tent_' || turn.id || '_' || entry, workspace_id, session_id, thread_id,
            case entry when 0 then 'user' else 'assistant' end,
            '[{"type":"text","text":"' || repeat('word ', 20) || '"}]', 'messages', 'bench', 'v', 'p', now()
       from turn, generate_series(0, 1) entry`,
    [sessionId, turns],
  );
  await database.query("update threads set turn_count = $2 where session_id = $1", [sessionId, turns]);
}

/** The server's memory after a thousand turns and after ten thousand. */
export async function memory(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const server = await startServerProcess(model.url);
  const client = new BenchClient(server.url);
  const run = async (turns: number) => {
    // Short-lived sessions, as clients make them: what is measured is the server, not one long conversation.
    for (let done = 0; done < turns; done += SESSIONS * 10) {
      const sessions = await Promise.all(
        Array.from({ length: SESSIONS }, () => client.session(server.environmentId, [])),
      );
      await Promise.all(sessions.map((session) => tenTurns(session)));
    }
    return residentMegabytes(server.pid);
  };
  const early = await run(1000);
  const late = await run(MANY_TURNS - 1000);
  await server.stop();
  await model.close();
  return [
    {
      what: "memory of the server after 10,000 turns (after 1,000), MB",
      measured: `${fixed(late)} (${fixed(early)})`,
      target: "< 250, flat",
      met: late < 250 && late / early < 1.25,
    },
  ];
}

async function tenTurns(session: BenchSession): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await session.turn("hello");
  }
  session.close();
}

/** Resident memory of a process, from the kernel. */
export async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024;
}
