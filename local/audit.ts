import { userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { type AuditedRequest, AuditMismatch, listRequests, rebuildRequest } from "../shared/context/rebuild.ts";
import { createPool } from "../shared/db/pool.ts";
import { findAddress } from "./database-address.ts";
import { localLog } from "./local-log.ts";
import { readSettings, SettingsError } from "./settings.ts";
import { terminalTable } from "./terminal-table.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));

/** `npm run audit -- <session> [request]`: what exactly did the model see? */
async function audit(sessionId: string, number: number | undefined): Promise<void> {
  const settings = readSettings(process.env, PROJECT);
  const connectionString = await findAddress(settings);
  if (connectionString === null) {
    throw new SettingsError("No server runs on this data folder. Start it (npm start), or set MANGO_DATABASE_URL.");
  }
  const database = createPool({ connectionString, max: 1, log: localLog("text") });
  try {
    if (number === undefined) {
      const requests = await listRequests(database, sessionId);
      process.stdout.write(requests.length === 0 ? `No request is recorded for ${sessionId}.\n` : table(requests));
      return;
    }
    const rebuilt = await rebuildRequest(database, { sessionId, number, actor: userInfo().username });
    if (rebuilt === null) {
      throw new SettingsError(
        `Session ${sessionId} has no request ${number}; without a number its requests are listed.`,
      );
    }
    process.stderr.write(`${table([rebuilt.request])}The digest of the rebuilt request is the one that was sent.\n\n`);
    process.stdout.write(`${rebuilt.body}\n`);
  } finally {
    await database.end();
  }
}

function table(requests: readonly AuditedRequest[]): string {
  const head = ["#", "turn", "round", "attempt", "state", "entries", "bytes", "tokens in / out", "at"];
  const rows = requests.map((request) => [
    String(request.number),
    String(request.turn),
    String(request.round),
    String(request.attempt),
    request.state,
    String(request.entries),
    String(request.bytes),
    `${request.inputTokens} / ${request.outputTokens}`,
    request.createdAt.toISOString(),
  ]);
  return terminalTable(head, rows);
}

const program = new Command("npm run audit --")
  .description(
    "Rebuilds a request to the model from its recipe, checks its digest and prints it; lists them without a number.",
  )
  .argument("<session>", "a session id")
  .argument("[request]", "which of the session's requests, counted from 1", (text) => Number.parseInt(text, 10))
  .addHelpText("after", "\nA look at a request is recorded: it holds what people and models said to each other.");
program.parse();

const [sessionId, number] = program.processedArgs as [string, number | undefined];
audit(sessionId, number).catch((error: unknown) => {
  const known = error instanceof SettingsError || error instanceof AuditMismatch;
  process.stderr.write(`${known ? error.message : String(error instanceof Error ? error.stack : error)}\n`);
  process.exitCode = 1;
});
