/**
 * kill -9 of the server at every commit and every external call of a scripted turn, before it and after it. The machine
 * loses power: the worker goes too, and it comes back when all leases have run out.
 *
 * FAULTS=sample plays one crash for every kind of point only, the sides taking turns.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { CrashPoint, Side } from "./fault-points.ts";
import { type Outcome, playScenario } from "./fault-scenario.ts";

const FULL = process.env["FAULTS"] !== "sample";
/** More would wait for the processor, not for anything else. */
const AT_ONCE = 3;
const SIDES: readonly Side[] = ["before", "after"];

describe("a turn on a machine that loses power", () => {
  let whole: Outcome;
  /** The points of the two turns: what follows them repeats kinds that came before. */
  let points: readonly string[];

  beforeAll(async () => {
    whole = await playScenario();
    const end = whole.points.findIndex((kind) => /commit of complete-turn.*session\.status_idle/.test(kind));
    points = whole.points.slice(0, end + 1);
  }, 120_000);

  test("without a crash everything happens once", () => {
    expect(whole.wrong).toEqual([]);
    expect({ done: whole.done, unknown: whole.unknown }).toEqual({ done: 3, unknown: 0 });
    expect(points.length).toBeGreaterThan(25);
  });

  test(`a crash at ${FULL ? "every point" : "a point of every kind"} loses nothing`, {
    timeout: 1_800_000,
  }, async () => {
    const chosen = FULL ? points.flatMap((_, i) => SIDES.map((side) => ({ n: i + 1, side }))) : sample(points);
    const since = performance.now();
    const failures: string[] = [];
    let unknown = 0;
    let unreached = 0;
    await inParallel(chosen, async (point) => {
      const outcome = await playScenario(point).catch((error: unknown) => broken(error));
      const kind = outcome.crashed?.kind ?? "not reached";
      unknown += outcome.unknown;
      if (outcome.crashed === null) unreached += 1;
      if (outcome.wrong.length > 0) {
        failures.push(`${point.side} point ${point.n} (${kind}):\n    ${outcome.wrong.join("\n    ")}`);
      }
    });
    console.log(
      `${chosen.length} crashes at ${points.length} points in ${Math.round((performance.now() - since) / 1000)} s; ` +
        `${unknown} calls of unknown effect, ${unreached} points not reached, ${failures.length} failures`,
    );
    expect(failures, failures.join("\n")).toEqual([]);
    // The order of what happens side by side may differ by a little; the crash must happen all the same.
    expect(unreached).toBeLessThanOrEqual(2);
  });
});

function broken(error: unknown): Outcome {
  const wrong = [`the scenario broke: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`];
  return { crashed: null, points: [], wrong, done: 0, unknown: 0 };
}

/** The first point of each kind, on alternating sides. */
function sample(kinds: readonly string[]): CrashPoint[] {
  return [...new Set(kinds)].map((kind, index) => ({
    n: kinds.indexOf(kind) + 1,
    side: SIDES[index % 2] ?? "before",
  }));
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const hands = Array.from({ length: AT_ONCE }, async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  });
  await Promise.all(hands);
}
