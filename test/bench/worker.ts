import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { startFakeModel } from "../fake-model/server.ts";
import { removeFolder } from "../remove-folder.ts";
import { BenchClient, type ToolTimes } from "./client.ts";
import { startServerProcess } from "./server-process.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const WARM_UP = 20;
const CALLS = 100;
const CALLS_PER_SESSION = 20;

/**
 * One command through the bundled worker, from the instant at which its call was published (the ledger's, in whole
 * milliseconds) to the instants at which it began (bash's own clock) and at which its result was seen on the stream.
 */
export async function workerCalls(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const launcher of ["process", "bwrap"] as const) rows.push(...(await callsUnder(launcher)));
  return rows;
}

async function callsUnder(launcher: "process" | "bwrap"): Promise<Row[]> {
  const workspaceRoot = await mkdtemp(path.join(tmpdir(), "mango-bench-workspaces-"));
  const model = await startFakeModel();
  const server = await startServerProcess(model.url, { launcher, workspaceRoot });
  try {
    const started = await measure(server, "echo $EPOCHREALTIME");
    const accepted = await measure(server, "true");
    const begun = started.map(
      ({ publishedAt, output }) => Number(output.trim().replace(",", ".")) * 1000 - publishedAt,
    );
    const seen = accepted.map(({ publishedAt, resultAt }) => resultAt - publishedAt);
    return [
      row(`a call published → its command begun, ${launcher}, p50 ms`, percentile(begun, 0.5), 50),
      row(`a call of \`true\` published → its result accepted, ${launcher}, p50 ms`, percentile(seen, 0.5), 80),
    ];
  } finally {
    await server.stop();
    await model.close();
    await removeFolder(workspaceRoot);
  }
}

async function measure(
  server: { readonly url: string; readonly environmentId: string },
  command: string,
): Promise<ToolTimes[]> {
  const client = new BenchClient(server.url);
  const tools = [{ type: "agent_toolset_20260401" }];
  const samples: ToolTimes[] = [];
  let session = await client.session(server.environmentId, tools);
  for (let call = 0; call < WARM_UP + CALLS; call += 1) {
    // As in the bench of turns: the offline rules read the whole conversation, and a session's first call starts it.
    if (call % CALLS_PER_SESSION === 0) {
      session.close();
      session = await client.session(server.environmentId, tools);
      await session.turn("run `true`");
    }
    samples.push(await session.toolTurn(`run \`${command}\``));
  }
  session.close();
  return samples.slice(WARM_UP);
}

function row(what: string, measured: number, target: number): Row {
  return { what, measured: fixed(measured), target: String(target), met: measured <= target };
}
