import pg from "pg";
import { scratchPostgres } from "./scratch-postgres.ts";

/**
 * The raw reference: what a turn must cost on this machine at least. Four durable commits of a small row each and one
 * call of the same model endpoint, one after the other, with nothing around them. Milliseconds per turn.
 */
export async function floorTurns(modelUrl: string, count: number): Promise<number[]> {
  const postgres = await scratchPostgres();
  const client = new pg.Client({ connectionString: postgres.connectionString });
  await client.connect();
  await client.query("create table floor (id serial primary key, payload text not null)");
  const samples: number[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    const start = performance.now();
    for (const step of ["admit", "ask", "answer", "end"]) {
      if (step === "answer") {
        const response = await fetch(`${modelUrl}/v1/messages`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: "{}",
        });
        await response.arrayBuffer();
      }
      await client.query("begin");
      await client.query("insert into floor (payload) values ($1)", [step.repeat(100)]);
      await client.query("commit");
    }
    samples.push(performance.now() - start);
  }
  await client.end();
  await postgres.stop();
  return samples;
}
