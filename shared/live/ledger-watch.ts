import type { Database } from "../db/transaction.ts";

/** How often the heads of all watched ledgers are read. A wake-up that got lost costs a stream this much. */
const LOOK_MS = 2000;

export interface Watched {
  /** The ledger has grown beyond what the stream has shown. */
  onGrown(): void;
  /** The session is being deleted, or gone. */
  onDeleted(): void;
  /** The position that the stream has shown. */
  readonly seq: () => number;
}

/**
 * The safety net under the live channel: reads the heads of every session that this process has streams of, in one
 * statement, however many there are. A thousand idle streams cost one query every two seconds, not a thousand.
 */
export class LedgerWatch {
  readonly #database: Pick<Database, "query">;
  readonly #sessions = new Map<string, Set<Watched>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(database: Pick<Database, "query">) {
    this.#database = database;
  }

  /** Watches until the returned function is called. */
  watch(sessionId: string, watched: Watched): () => void {
    const streams = this.#sessions.get(sessionId) ?? new Set();
    streams.add(watched);
    this.#sessions.set(sessionId, streams);
    this.#timer ??= setInterval(() => void this.look().catch(() => {}), LOOK_MS);
    return () => {
      streams.delete(watched);
      if (streams.size === 0 && this.#sessions.get(sessionId) === streams) {
        this.#sessions.delete(sessionId);
      }
      if (this.#sessions.size === 0) {
        clearInterval(this.#timer);
        this.#timer = undefined;
      }
    };
  }

  async look(): Promise<void> {
    // Only those that are asked about are told: of a session that comes while the answer is under way it says nothing.
    const asked = [...this.#sessions].map(([sessionId, streams]) => ({ sessionId, streams: [...streams] }));
    const { rows } = await this.#database.query<{ id: string; last_seq: number; deleting: boolean }>(
      "select id, last_seq, deleting_at is not null as deleting from sessions where id = any($1::text[])",
      [asked.map(({ sessionId }) => sessionId)],
    );
    const heads = new Map(rows.map((row) => [row.id, row]));
    for (const { sessionId, streams } of asked) {
      const head = heads.get(sessionId);
      for (const stream of streams) {
        if (head === undefined || head.deleting) {
          stream.onDeleted();
        } else if (head.last_seq > stream.seq()) {
          stream.onGrown();
        }
      }
    }
  }
}
