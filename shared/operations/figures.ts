import type { Transaction } from "../db/transaction.ts";

/** How many there are, and how long the oldest has waited, in whole seconds; 0 when there are none. */
export interface Waiting {
  readonly count: number;
  readonly oldestSeconds: number;
}

/** What an operator watches and only the database knows. */
export interface Figures {
  /** Turns that run or wait for the provider. */
  readonly active: number;
  /** Turns that wait for people, a worker or the application; the age is the turn's. */
  readonly parked: Waiting;
  /** Work items that no worker has acknowledged. */
  readonly work: Waiting;
  /** What has not been said to Step Functions, or had no effect yet. */
  readonly outbox: Waiting;
}

interface Row {
  active: number;
  parked: number;
  parked_age: number;
  work: number;
  work_age: number;
  outbox: number;
  outbox_age: number;
}

/** One look, over indexes that hold only what is unfinished: it costs the same however many turns there have been. */
export async function figures(database: Transaction): Promise<Figures> {
  const { rows } = await database.query<Row>(
    `with
       turn as (select count(*) filter (where state in ('running', 'backing_off'))::int as active,
                       count(*) filter (where state in ('parked', 'hibernated'))::int as parked,
                       min(created_at) filter (where state in ('parked', 'hibernated')) as oldest
                  from turns where state in ('running', 'parked', 'hibernated', 'backing_off')),
       item as (select count(*)::int as queued, min(created_at) as oldest from work_items where state = 'queued'),
       message as (select count(*)::int as waiting, min(created_at) as oldest from outbox)
     select turn.active, turn.parked, item.queued as work, message.waiting as outbox,
            coalesce(extract(epoch from clock_timestamp() - turn.oldest), 0)::int as parked_age,
            coalesce(extract(epoch from clock_timestamp() - item.oldest), 0)::int as work_age,
            coalesce(extract(epoch from clock_timestamp() - message.oldest), 0)::int as outbox_age
       from turn, item, message`,
  );
  const [row] = rows;
  if (row === undefined) {
    throw new Error("An aggregate answered no row.");
  }
  return {
    active: row.active,
    parked: { count: row.parked, oldestSeconds: row.parked_age },
    work: { count: row.work, oldestSeconds: row.work_age },
    outbox: { count: row.outbox, oldestSeconds: row.outbox_age },
  };
}
