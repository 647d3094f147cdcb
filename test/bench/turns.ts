import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient } from "./client.ts";
import { floorTurns } from "./floor.ts";
import { pausingModel } from "./pausing-model.ts";
import { startServerProcess } from "./server-process.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const WARM_UP = 60;
const TURNS = 400;
const TOOL_TURNS = 200;
const ROUNDS = 30;
const SESSIONS = 50;
const BASH = [{ type: "agent_toolset_20260401" }];

/** A turn without tools on one session, beside the floor that four commits and the model call alone take. */
export async function plainTurns(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const floor = (await floorTurns(model.url, WARM_UP + TURNS)).slice(WARM_UP);
  const server = await startServerProcess(model.url);
  const session = await new BenchClient(server.url).session(server.environmentId, []);
  const samples: number[] = [];
  for (let turn = 0; turn < WARM_UP + TURNS; turn += 1) {
    samples.push(await session.turn("hello"));
  }
  session.close();
  await server.stop();
  await model.close();
  const measured = samples.slice(WARM_UP);
  const [p50, p99] = [percentile(measured, 0.5), percentile(measured, 0.99)];
  const [floor50, floor99] = [percentile(floor, 0.5), percentile(floor, 0.99)];
  return [
    {
      what: "turn without tools, POST to idle on the stream, p50 / p99 ms",
      measured: `${fixed(p50)} / ${fixed(p99)}`,
      target: "20 / 80",
      met: p50 <= 20 && p99 <= 80,
    },
    {
      what: "  the floor in this run: 4 commits and the model call, p50 / p99 ms",
      measured: `${fixed(floor50)} / ${fixed(floor99)}`,
      target: `we take ×${(p50 / floor50).toFixed(1)}`,
      met: null,
    },
  ];
}

/** A turn with one `true` through the worker. */
export async function toolTurns(): Promise<Row[]> {
  const model = await startFakeModel();
  const server = await startServerProcess(model.url);
  const client = new BenchClient(server.url);
  const samples: number[] = [];
  let session = await client.session(server.environmentId, BASH);
  for (let turn = 0; turn < WARM_UP + TOOL_TURNS; turn += 1) {
    // A fresh session now and then: the offline rules read the whole conversation, and it must not grow for ever.
    if (turn % 20 === 0) {
      session.close();
      session = await client.session(server.environmentId, BASH);
      await session.turn("run `true`");
    }
    samples.push(await session.turn("run `true`"));
  }
  session.close();
  await server.stop();
  await model.close();
  const measured = samples.slice(WARM_UP);
  const [p50, p99] = [percentile(measured, 0.5), percentile(measured, 0.99)];
  return [
    {
      what: "the same with one tool call through the worker, p50 / p99 ms",
      measured: `${fixed(p50)} / ${fixed(p99)}`,
      target: "60 / 160",
      met: p50 <= 60 && p99 <= 160,
    },
  ];
}

/** Time between the end of a response and the next request of the same turn: ours alone. */
export async function ownTimePerRound(): Promise<Row[]> {
  const model = await pausingModel(ROUNDS);
  const server = await startServerProcess(model.url);
  const session = await new BenchClient(server.url).session(server.environmentId, []);
  for (let turn = 0; turn < 6; turn += 1) {
    await session.turn("go on");
  }
  session.close();
  await server.stop();
  await model.close();
  const p50 = percentile(model.gaps.slice(ROUNDS), 0.5);
  return [
    {
      what: "own time per model round (response end → next request), p50 ms",
      measured: fixed(p50),
      target: "15",
      met: p50 <= 15,
    },
  ];
}

/** Turns without tools, as many at once as there are sessions. */
export async function throughput(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const server = await startServerProcess(model.url);
  const client = new BenchClient(server.url);
  const sessions = await Promise.all(Array.from({ length: SESSIONS }, () => client.session(server.environmentId, [])));
  const eachTurns = async (count: number) => {
    await Promise.all(
      sessions.map(async (session) => {
        for (let turn = 0; turn < count; turn += 1) {
          await session.turn("hello");
        }
      }),
    );
  };
  await eachTurns(4);
  const start = performance.now();
  await eachTurns(30);
  const rate = (SESSIONS * 30) / ((performance.now() - start) / 1000);
  for (const session of sessions) {
    session.close();
  }
  await server.stop();
  await model.close();
  return [{ what: `turns per second, ${SESSIONS} sessions`, measured: fixed(rate), target: "90", met: rate >= 90 }];
}
