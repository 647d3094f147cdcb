import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { buildBundles } from "../../infra/bundles.ts";
import { MEASURED } from "../../infra/cost/measured.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const run = promisify(execFile);
const LOADS = 5;
/** What Lambda's runtime puts there before it loads a function. */
const RUNTIME = "globalThis.awslambda = { streamifyResponse: (handler) => handler };";
const LIMIT_KB = 1024;
const LIMIT_MS = 150;

/** Processor time in milliseconds: a cold start has a core to itself, and this machine may not. */
const SPENT = "const { user, system } = process.cpuUsage(); process.stdout.write(String((user + system) / 1000));";

/** How large each bundle is, and how much more a process spends that loads it than one that loads nothing. */
export async function bundles(): Promise<Row[]> {
  const directory = await mkdtemp(path.join(tmpdir(), "mango-bench-bundles-"));
  const built = (await buildBundles(directory)).filter(({ name }) => name !== "worker");
  const load = async (script: string) => {
    const { stdout } = await run(process.execPath, ["-e", `${RUNTIME} ${script} ${SPENT}`], { env: {}, cwd: tmpdir() });
    return Number(stdout);
  };
  const samples = new Map<string, number[]>();
  for (let turn = 0; turn < LOADS; turn += 1) {
    // In turns with the bare process, so that a busy moment is everybody's.
    for (const name of ["", ...built.map((bundle) => bundle.name)]) {
      const script = name === "" ? "" : `require(${JSON.stringify(path.join(directory, name, "index.js"))});`;
      samples.set(name, [...(samples.get(name) ?? []), await load(script)]);
    }
  }
  await rm(directory, { recursive: true, force: true });
  const bare = percentile(samples.get("") ?? [], 0.5);
  const rows = built.map(({ name, bytes }): Row => {
    const more = percentile(samples.get(name) ?? [], 0.5) - bare;
    const kilobytes = Math.ceil(bytes / 1024);
    return {
      what: `bundle ${name}: size KB / cold load over bare node p50, ms of a core`,
      measured: `${kilobytes} / +${fixed(more)}`,
      target: `${LIMIT_KB} / +${LIMIT_MS}`,
      met: kilobytes <= LIMIT_KB && more <= LIMIT_MS,
    };
  });
  return [
    ...rows,
    { what: "  bare node in this run, p50 ms of a core", measured: fixed(bare), target: "", met: null },
    executions(),
  ];
}

/** Counted by a test: see `infra/cost/cost.test.ts`. */
function executions(): Row {
  const { historyEvents, statesEntered } = MEASURED.plain;
  return {
    what: "states entered / history events of a turn without tools",
    measured: `${statesEntered} / ${historyEvents}`,
    target: "3 / 25",
    met: statesEntered <= 3 && historyEvents <= 25,
  };
}
