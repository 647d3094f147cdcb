import { startFakeModel } from "../fake-model/server.ts";
import { BenchClient, type BenchSession } from "./client.ts";
import { residentMegabytes } from "./history.ts";
import { startServerProcess } from "./server-process.ts";
import { fixed, percentile, type Row } from "./statistics.ts";

const STREAMS = 1000;
const SENDS = 200;

/** From the POST of an event that starts nothing to its frame on the stream: an upper bound of commit → client. */
export async function streams(): Promise<Row[]> {
  const model = await startFakeModel({ fixed: "Done." });
  const server = await startServerProcess(model.url);
  const client = new BenchClient(server.url);
  const sessions = [await client.session(server.environmentId, [])];
  const one = await delays(sessions);
  while (sessions.length < STREAMS) {
    const more = Math.min(50, STREAMS - sessions.length);
    sessions.push(...(await Promise.all(Array.from({ length: more }, () => client.session(server.environmentId, [])))));
  }
  const thousand = await delays(sessions);
  const memory = await residentMegabytes(server.pid);
  for (const session of sessions) {
    session.close();
  }
  await server.stop();
  await model.close();
  const [p95one, p95thousand] = [percentile(one, 0.95), percentile(thousand, 0.95)];
  return [
    {
      what: "commit → client on a stream, p95 ms, 1 / 1,000 streams",
      measured: `${fixed(p95one)} / ${fixed(p95thousand)}`,
      target: "30 / 250",
      met: p95one <= 30 && p95thousand <= 250,
    },
    {
      what: "memory of the server with 1,000 streams, MB",
      measured: fixed(memory),
      target: "< 300",
      met: memory < 300,
    },
  ];
}

async function delays(sessions: readonly BenchSession[]): Promise<number[]> {
  const samples: number[] = [];
  for (let send = 0; send < SENDS; send += 1) {
    const session = sessions[(send * 7919) % sessions.length];
    if (session !== undefined) {
      samples.push(await session.interrupt());
    }
  }
  return samples.slice(10);
}
