import pg from "pg";
import { DEFAULT_ENVIRONMENT, LOCAL_WORKSPACE } from "../../local/default-environment.ts";
import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient } from "./client.ts";
import { scratchPostgres } from "./scratch-postgres.ts";
import { startServerProcess } from "./server-process.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const SMALL = 1000;
const LARGE = 100_000;
const READS = 150;

/** A page of 100 of a long list costs about what it costs of a short one. */
export async function lists(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const postgres = await scratchPostgres();
  const server = await startServerProcess(model.url, { databaseUrl: postgres.connectionString });
  const client = new BenchClient(server.url);
  const small = await client.session(server.environmentId, []);
  const large = await client.session(server.environmentId, []);
  small.close();
  large.close();
  const database = new pg.Client({ connectionString: postgres.connectionString });
  await database.connect();
  await fillEvents(database, small.id, SMALL);
  await fillEvents(database, large.id, LARGE);
  await database.query("analyze");
  const page = async (target: string) => {
    const samples: number[] = [];
    for (let read = 0; read < READS; read += 1) {
      const start = performance.now();
      await client.get(target);
      samples.push(performance.now() - start);
    }
    return percentile(samples.slice(20), 0.5);
  };
  const events = async (id: string) => {
    const first = await client.get<{ next_page: string }>(`/v1/sessions/${id}/events?limit=100`);
    return page(`/v1/sessions/${id}/events?limit=100&page=${encodeURIComponent(first.next_page)}`);
  };
  const [eventsSmall, eventsLarge] = [await events(small.id), await events(large.id)];

  await fillSessions(database, small.id, SMALL);
  const sessionsThousand = await page("/v1/sessions?limit=100");
  await fillSessions(database, small.id, LARGE);
  await database.query("analyze");
  const sessionsLarge = await page("/v1/sessions?limit=100");
  await database.end();
  await server.stop();
  await postgres.stop();
  await model.close();
  return [
    ratio("page of 100 events, session of 100,000 against 1,000, p50 ms", eventsLarge, eventsSmall),
    ratio("page of 100 sessions among 100,000 against 1,000, p50 ms", sessionsLarge, sessionsThousand),
  ];
}

function ratio(what: string, large: number, small: number): Row {
  return {
    what,
    measured: `${fixed(large)} / ${fixed(small)} = ×${(large / small).toFixed(2)}`,
    target: "≤ ×1.5",
    met: large / small <= 1.5,
  };
}

/** Rows as the ledger would hold them; the chain is not made, since nothing here reads it. */
async function fillEvents(database: pg.Client, sessionId: string, count: number): Promise<void> {
  await database.query(
    `insert into events (session_id, seq, id, workspace_id, thread_id, type, payload, received_at, processed_at, previous_hash, hash)
     select s.id, s.last_seq + n, 'sevt_fill_' || n, s.workspace_id, s.primary_thread_id, 'agent.message',
            '{"content":[{"type":"text","text":"' || repeat('word ', 20) || '"}]}', now(), s.last_processed_at + n * interval '1 millisecond', '', ''
       from sessions s, generate_series(1, $2::int) n where s.id = $1`,
    [sessionId, count],
  );
  await database.query("update sessions set last_seq = last_seq + $2 where id = $1", [sessionId, count]);
}

async function fillSessions(database: pg.Client, like: string, count: number): Promise<void> {
  await database.query(
    `insert into sessions (id, workspace_id, environment_id, agent_id, agent_version, metadata, agent, runtime, status,
                           primary_thread_id, last_hash, last_processed_at, created_at, updated_at)
     select 'sesn_fill_' || $3::int || '_' || n, workspace_id, $2, agent_id, agent_version, metadata, agent, runtime, 'idle',
            primary_thread_id, last_hash, last_processed_at, created_at - n * interval '1 second', updated_at
       from sessions, generate_series(1, $3::int) n where id = $1 and workspace_id = $4`,
    [like, DEFAULT_ENVIRONMENT, count, LOCAL_WORKSPACE],
  );
}
