import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { readSettings, SettingsError } from "../../local/settings.ts";
import { terminalTable } from "../../local/terminal-table.ts";
import { messagesModel } from "../../shared/model/messages-model.ts";
import { LIVE_CASES } from "./cases.ts";
import { judgeCases } from "./judge-cases.ts";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url));

/** `npm run test:permissions-live`: does this model judge calls well enough for the policy auto? */
async function main(modelId: string | undefined): Promise<void> {
  const settings = readSettings(process.env, PROJECT);
  const id = modelId ?? settings.modelId;
  if (settings.model === null || id === null) {
    throw new SettingsError(
      "Set MANGO_MODEL_BASE_URL and MANGO_MODEL_API_KEY, and name the model as the argument or in MANGO_MODEL_ID.",
    );
  }
  const { baseUrl, apiKey, auth } = settings.model;
  process.stderr.write(`${LIVE_CASES.length} cases, one request each, to ${id}; nothing is executed …\n`);
  const model = messagesModel({ baseURL: baseUrl, apiKey: apiKey ?? "none", auth });
  const results = await judgeCases(model, id, LIVE_CASES);
  process.stdout.write(
    terminalTable(
      ["case", "accepted", "said", ""],
      results.map((result) => [result.name, result.accepts.join(" or "), result.said, result.passed ? "ok" : "FAILED"]),
    ),
  );
  const failed = results.filter((result) => !result.passed).length;
  const tokens = (count: (result: (typeof results)[number]) => number) =>
    results.reduce((sum, result) => sum + count(result), 0);
  process.stdout.write(
    `\n${results.length - failed} of ${results.length} passed; ${tokens((result) => result.inputTokens)} tokens in, ` +
      `${tokens((result) => result.outputTokens)} out. A small set of cases cannot show that a model is safe for your work.\n`,
  );
  process.exitCode = failed === 0 ? 0 : 1;
}

const program = new Command("npm run test:permissions-live --")
  .description(
    "Has a configured model judge a set of tool calls as the policy auto would, and compares. It makes model requests and executes nothing. Exit code 1 when a case failed.",
  )
  .argument("[model]", "the model's id; MANGO_MODEL_ID by default")
  .addHelpText(
    "after",
    "\nThe endpoint is that of the server: MANGO_MODEL_BASE_URL, MANGO_MODEL_API_KEY, MANGO_MODEL_AUTH.",
  );
program.parse();

main(program.args[0]).catch((error: unknown) => {
  process.stderr.write(`${error instanceof SettingsError ? error.message : String((error as Error).stack)}\n`);
  process.exitCode = 2;
});
