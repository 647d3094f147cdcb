import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { LOCAL_WORKSPACE } from "../../local/default-environment.ts";
import { createPool } from "../../shared/db/pool.ts";
import { type Database, inTransaction } from "../../shared/db/transaction.ts";
import { admitEvents } from "../../shared/sessions/admission.ts";
import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient } from "./client.ts";
import { scratchPostgres } from "./scratch-postgres.ts";
import { type ServerProcess, startServerProcess } from "./server-process.ts";
import type { Row } from "./statistics.ts";

const run = promisify(execFile);
const SESSIONS = 8;
const MESSAGES = 250;
const TARGET = 0.6;
/** Waits for a person, so that a message is admitted and starts nothing. */
const ASKS = [
  {
    type: "agent_toolset_20260401",
    configs: [{ name: "bash", permission_policy: { type: "always_ask" } }],
  },
];
const MESSAGE = { type: "user.message" as const, content: [{ type: "text" as const, text: "and another thing" }] };

/**
 * Messages admitted over HTTP to eight sessions side by side, beside the very same transactions replayed by eight
 * `psql` on a copy of the database: what PostgreSQL and its C client take on this machine for them, with nothing around.
 * (`pgbench` repeats one script, and no two admissions have the same statements; `psql` is its like.)
 */
export async function admission(): Promise<Row[]> {
  const what = `messages admitted per second, ${SESSIONS} sessions, against the same transactions in psql`;
  const target = `≥ ×${TARGET}`;
  if ((await run("psql", ["--version"]).catch(() => null)) === null) {
    return [{ what, measured: "not measured: psql is not installed", target, met: null }];
  }
  const model = await startFakeModel();
  const postgres = await scratchPostgres();
  const databaseUrl = postgres.connectionString;
  try {
    const sessions = await served(model.url, databaseUrl, ({ url, environmentId }) =>
      waitingSessions(databaseUrl, new BenchClient(url), environmentId),
    );
    const scripts = await recorded(await copyOf(databaseUrl, "recorded"), sessions);
    const raw = await replayed(await copyOf(databaseUrl, "replayed"), scripts);
    const ours = await served(model.url, databaseUrl, ({ url }) => admitted(new BenchClient(url), sessions));
    const ratio = ours / raw;
    const measured = `${Math.round(ours)} / ${Math.round(raw)} = ×${ratio.toFixed(2)}`;
    return [{ what, measured, target, met: ratio >= TARGET }];
  } finally {
    await postgres.stop();
    await model.close();
  }
}

async function served<T>(
  modelUrl: string,
  databaseUrl: string,
  work: (server: ServerProcess) => Promise<T>,
): Promise<T> {
  const server = await startServerProcess(modelUrl, { databaseUrl });
  try {
    return await work(server);
  } finally {
    await server.stop();
  }
}

async function waitingSessions(databaseUrl: string, client: BenchClient, environmentId: string): Promise<string[]> {
  const sessions: string[] = [];
  for (let i = 0; i < SESSIONS; i += 1) {
    const session = await client.session(environmentId, ASKS);
    session.close();
    await client.post(`/v1/sessions/${session.id}/events`, {
      events: [{ type: "user.message", content: [{ type: "text", text: "run `true`" }] }],
    });
    sessions.push(session.id);
  }
  const database = new pg.Client({ connectionString: databaseUrl });
  await database.connect();
  const parked = async () => (await database.query("select 1 from turns where state = 'parked'")).rowCount ?? 0;
  while ((await parked()) < SESSIONS) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await database.end();
  return sessions;
}

/** Another database of the same server that holds the same. Nobody may be connected to the first. */
async function copyOf(databaseUrl: string, name: string): Promise<string> {
  const original = new URL(databaseUrl);
  const client = new pg.Client({ connectionString: withDatabase(original, "postgres") });
  await client.connect();
  await client.query(`create database ${name} template ${pg.escapeIdentifier(original.pathname.slice(1))}`);
  await client.end();
  return withDatabase(original, name);
}

function withDatabase(original: URL, name: string): string {
  const url = new URL(original);
  url.pathname = name;
  return url.href;
}

/** Admits the messages in this process, and gives the statements that it took: a script for each session. */
async function recorded(databaseUrl: string, sessions: readonly string[]): Promise<string[]> {
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const pool = createPool({ connectionString: databaseUrl, max: 1, log });
  const scripts: string[] = [];
  for (const sessionId of sessions) {
    const statements: string[] = [];
    for (let i = 0; i < MESSAGES; i += 1) {
      await inTransaction(recording(pool, statements), (transaction) =>
        admitEvents(transaction, { workspaceId: LOCAL_WORKSPACE, sessionId, events: [MESSAGE] }),
      );
    }
    scripts.push(statements.join("\n"));
  }
  await pool.end();
  return scripts;
}

function recording(pool: pg.Pool, statements: string[]): Database {
  return {
    query: () => Promise.reject(new Error("An admission is one transaction.")),
    async connect() {
      const client = await pool.connect();
      const query = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<never>;
      return new Proxy(client, {
        get: (target, name) =>
          name === "query"
            ? (text: string, values: unknown[] = []) => {
                statements.push(`${text.replace(/\$(\d+)/g, (_, n) => literal(values[Number(n) - 1]))};`);
                return query(text, values);
              }
            : Reflect.get(target, name, target),
      });
    },
  };
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return `array[${value.map(literal).join(", ")}]`;
  if (Buffer.isBuffer(value)) return `'\\x${value.toString("hex")}'::bytea`;
  if (value instanceof Date) return `'${value.toISOString()}'::timestamptz`;
  return typeof value === "string" ? pg.escapeLiteral(value) : `'${String(value)}'`;
}

/** Transactions per second. */
async function replayed(databaseUrl: string, scripts: readonly string[]): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), "mango-bench-admission-"));
  const files = scripts.map((_, i) => path.join(folder, `${i}.sql`));
  await Promise.all(scripts.map((script, i) => writeFile(files[i] ?? "", script)));
  const start = performance.now();
  await Promise.all(
    files.map((file) =>
      run("psql", [databaseUrl, "--quiet", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f", file, "-o", "/dev/null"]),
    ),
  );
  const seconds = (performance.now() - start) / 1000;
  await rm(folder, { recursive: true });
  return (SESSIONS * MESSAGES) / seconds;
}

/** Admissions per second, each answered before the next of its session is sent. */
async function admitted(client: BenchClient, sessions: readonly string[]): Promise<number> {
  const send = async (messages: number) => {
    await Promise.all(
      sessions.map(async (id) => {
        for (let i = 0; i < messages; i += 1) {
          await client.post(`/v1/sessions/${id}/events`, { events: [MESSAGE] });
        }
      }),
    );
  };
  await send(20);
  const start = performance.now();
  await send(MESSAGES);
  return (SESSIONS * MESSAGES * 1000) / (performance.now() - start);
}
