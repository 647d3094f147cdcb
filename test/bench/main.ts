import { Command } from "commander";
import { admission } from "./admission.ts";
import { bundles } from "./bundles.ts";
import { longTranscripts, memory } from "./history.ts";
import { lists } from "./lists.ts";
import { type Row, table } from "./statistics.ts";
import { streams } from "./streams.ts";
import { ownTimePerRound, plainTurns, throughput, toolTurns } from "./turns.ts";
import { workerCalls } from "./worker.ts";

/**
 * `npm run bench`: what things cost on this machine, beside the design's targets and beside raw references measured in
 * the same run. The server runs as users start it; the model endpoint answers at once, over loopback.
 */
const BENCHES: Readonly<Record<string, () => Promise<Row[]>>> = {
  turn: plainTurns,
  tool: toolTurns,
  round: ownTimePerRound,
  worker: workerCalls,
  throughput,
  admission,
  lists,
  streams,
  history: longTranscripts,
  bundles,
  memory,
};

const program = new Command("npm run bench --")
  .description("Measures turns, lists and streams on this machine; a few minutes.")
  .argument("[names...]", `which: ${Object.keys(BENCHES).join(", ")}; all by default`);
program.parse();

const names = program.args.length > 0 ? program.args : Object.keys(BENCHES);
const rows: Row[] = [];
for (const name of names) {
  const bench = BENCHES[name];
  if (bench === undefined) {
    program.error(`There is no bench ${name}; there are ${Object.keys(BENCHES).join(", ")}.`);
  }
  process.stderr.write(`${name} …\n`);
  rows.push(...((await bench?.()) ?? []));
}
process.stdout.write(`\n${table(rows)}`);
