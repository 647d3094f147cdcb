import { expect, test } from "vitest";
import type { Database } from "../db/transaction.ts";
import { LedgerWatch } from "./ledger-watch.ts";

/** A stream that writes down what it is told. */
function stream(seq: number) {
  const told: string[] = [];
  return { told, seq: () => seq, onGrown: () => told.push("grown"), onDeleted: () => told.push("deleted") };
}

/** A database that answers when the test says so, with the heads of what it was asked about. */
function heads(rows: readonly { id: string; last_seq: number; deleting: boolean }[]) {
  const answer = Promise.withResolvers<void>();
  const query = async (_: string, [ids]: readonly [readonly string[]]) => {
    await answer.promise;
    return { rows: rows.filter(({ id }) => ids.includes(id)) };
  };
  return { database: { query } as unknown as Pick<Database, "query">, answer: () => answer.resolve() };
}

test("a stream is told that its ledger has grown, or that its session is gone", async () => {
  const { database, answer } = heads([
    { id: "grown", last_seq: 5, deleting: false },
    { id: "quiet", last_seq: 5, deleting: false },
    { id: "deleting", last_seq: 5, deleting: true },
  ]);
  const watch = new LedgerWatch(database);
  const streams = { grown: stream(4), quiet: stream(5), deleting: stream(5), gone: stream(5) };
  const stops = Object.entries(streams).map(([id, watched]) => watch.watch(id, watched));
  answer();

  await watch.look();

  expect(Object.values(streams).map(({ told }) => told)).toEqual([["grown"], [], ["deleted"], ["deleted"]]);
  for (const stop of stops) stop();
});

test("a stream that is attached while the heads are read is not told that its session is gone", async () => {
  const { database, answer } = heads([{ id: "old", last_seq: 5, deleting: false }]);
  const watch = new LedgerWatch(database);
  const [old, young] = [stream(5), stream(1)];
  const stops = [watch.watch("old", old)];
  const looking = watch.look();
  stops.push(watch.watch("young", young));
  answer();

  await looking;

  expect([old.told, young.told]).toEqual([[], []]);
  for (const stop of stops) stop();
});
