import { userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { type AuditedRequest, AuditMismatch, listRequests, rebuildRequest } from "../shared/context/rebuild.ts";
import { createPool } from "../shared/db/pool.ts";
import type { Database } from "../shared/db/transaction.ts";
import { type AuditedJudgment, listJudgments, rebuildJudgment } from "../shared/permissions/rebuild-judgment.ts";
import { findAddress } from "./database-address.ts";
import { localLog } from "./local-log.ts";
import { readSettings, SettingsError } from "./settings.ts";
import { terminalTable } from "./terminal-table.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));

/** `npm run audit -- <session> [request]`: what exactly did the model see? */
async function audit(sessionId: string, which: string | undefined): Promise<void> {
  const settings = readSettings(process.env, PROJECT);
  const connectionString = await findAddress(settings);
  if (connectionString === null) {
    throw new SettingsError("No server runs on this data folder. Start it (npm start), or set MANGO_DATABASE_URL.");
  }
  const database = createPool({ connectionString, max: 1, log: localLog("text") });
  try {
    await (which === undefined ? list(database, sessionId) : print(database, sessionId, which));
  } finally {
    await database.end();
  }
}

async function list(database: Database, sessionId: string): Promise<void> {
  const requests = await listRequests(database, sessionId);
  process.stdout.write(requests.length === 0 ? `No request is recorded for ${sessionId}.\n` : table(requests));
  const judgments = await listJudgments(database, sessionId);
  if (judgments.length > 0) {
    process.stdout.write(`\nJudgments under the policy auto:\n${judgmentTable(judgments)}`);
  }
}

async function print(database: Database, sessionId: string, which: string): Promise<void> {
  const look = { sessionId, actor: userInfo().username };
  const request = await rebuildRequest(database, { ...look, number: Number(which) });
  const judgment = request === null ? await rebuildJudgment(database, { ...look, id: which }) : null;
  const rebuilt = request ?? judgment;
  if (rebuilt === null) {
    throw new SettingsError(`Session ${sessionId} has no request ${which}; without a number or an id they are listed.`);
  }
  process.stderr.write(
    request !== null ? table([request.request]) : judgmentTable(judgment === null ? [] : [judgment.judgment]),
  );
  process.stderr.write("The digest of the rebuilt request is the one that was sent.\n\n");
  process.stdout.write(`${rebuilt.body}\n`);
}

function judgmentTable(judgments: readonly AuditedJudgment[]): string {
  return terminalTable(
    ["id", "tool", "said", "fallback", "standing", "tokens in / out", "at"],
    judgments.map((judgment) => [
      judgment.id,
      judgment.tool,
      judgment.permission,
      judgment.fallback ?? "",
      judgment.standing,
      `${judgment.inputTokens} / ${judgment.outputTokens}`,
      judgment.createdAt.toISOString(),
    ]),
  );
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
    "Rebuilds a request to the model from its recipe, checks its digest and prints it; without one named, lists them.",
  )
  .argument("<session>", "a session id")
  .argument("[request]", "which of the session's requests, counted from 1, or the id of a judgment")
  .addHelpText("after", "\nA look at a request is recorded: it holds what people and models said to each other.");
program.parse();

const [sessionId, which] = program.processedArgs as [string, string | undefined];
audit(sessionId, which).catch((error: unknown) => {
  const known = error instanceof SettingsError || error instanceof AuditMismatch;
  process.stderr.write(`${known ? error.message : String(error instanceof Error ? error.stack : error)}\n`);
  process.exitCode = 1;
});
