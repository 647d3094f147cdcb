import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient } from "./client.ts";
import { floorTurns } from "./floor.ts";
import { pausingModel } from "./pausing-model.ts";
import { startServerProcess } from "./server-process.ts";
import { percentile, type Row, table } from "./statistics.ts";

/**
 * `npm run bench`: what a turn costs on this machine, beside the design's targets and beside a raw reference measured
 * in the same run. The server runs as users start it; the model endpoint answers at once, over loopback.
 */

const WARM_UP = 60;
const TURNS = 400;
const TOOL_TURNS = 200;
const ROUNDS = 30;
const BASH = [{ type: "agent_toolset_20260401" }];

const ms = (value: number) => value.toFixed(1);
const rows: Row[] = [];

function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function plainTurns(): Promise<void> {
  const model = await startFakeModel({ fixed: "Done." });
  note("floor: four commits and one model call …");
  const floor = (await floorTurns(model.url, WARM_UP + TURNS)).slice(WARM_UP);
  const server = await startServerProcess(model.url);
  note(`turns without tools: ${TURNS} …`);
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
  rows.push(
    {
      what: "turn without tools, POST to idle on the stream, p50 / p99 ms",
      measured: `${ms(p50)} / ${ms(p99)}`,
      target: "20 / 80",
      met: p50 <= 20 && p99 <= 80,
    },
    {
      what: "  the floor in this run (4 commits + model call), p50 / p99 ms",
      measured: `${ms(percentile(floor, 0.5))} / ${ms(percentile(floor, 0.99))}`,
      target: `×${(p50 / percentile(floor, 0.5)).toFixed(2)} of it`,
      met: true,
    },
  );
}

async function toolTurns(): Promise<void> {
  const model = await startFakeModel();
  const server = await startServerProcess(model.url);
  note(`turns with one tool call through the worker: ${TOOL_TURNS} …`);
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
  rows.push({
    what: "the same with one tool call through the worker, p50 / p99 ms",
    measured: `${ms(p50)} / ${ms(p99)}`,
    target: "60 / 160",
    met: p50 <= 60 && p99 <= 160,
  });
}

async function ownTimePerRound(): Promise<void> {
  const model = await pausingModel(ROUNDS);
  const server = await startServerProcess(model.url);
  note(`own time per round: turns of ${ROUNDS} rounds …`);
  const session = await new BenchClient(server.url).session(server.environmentId, []);
  for (let turn = 0; turn < 6; turn += 1) {
    await session.turn("go on");
  }
  session.close();
  await server.stop();
  await model.close();
  const measured = model.gaps.slice(ROUNDS);
  const p50 = percentile(measured, 0.5);
  rows.push({
    what: "own time per model round (response end → next request), p50 ms",
    measured: ms(p50),
    target: "15",
    met: p50 <= 15,
  });
}

await plainTurns();
await toolTurns();
await ownTimePerRound();
process.stdout.write(`\n${table(rows)}\n`);
