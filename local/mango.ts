import { userInfo } from "node:os";
import { fileURLToPath } from "node:url";
import { CommanderError } from "commander";
import type { OperatorAnswer, OperatorCommand, OperatorRequest } from "../shared/operator/commands.ts";
import { DataDirError } from "./data-dir.ts";
import { EXIT, type OperatorOptions, operatorCommand } from "./operator/command.ts";
import { OperatorFunctionError } from "./operator/function-error.ts";
import { printed } from "./operator/printing.ts";

import { PostgresError } from "./postgres/postgres-error.ts";
import { readSettings, SettingsError } from "./settings.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));

/** `npm run mango -- …`: the operator's command. */
async function run(request: OperatorCommand, options: OperatorOptions): Promise<void> {
  const answer = await carryOut(options.functionName, { actor: userInfo().username, request });
  if ("error" in answer) {
    process.stderr.write(options.json ? `${JSON.stringify(answer)}\n` : `${answer.error.message}\n`);
    process.exitCode = EXIT.failed;
    return;
  }
  process.stdout.write(options.json ? `${JSON.stringify(answer.result, null, 2)}\n` : printed(answer.result));
}

/** Each way is loaded when it is taken: help and wrong usage are answered at once. */
async function carryOut(functionName: string | null, request: OperatorRequest): Promise<OperatorAnswer> {
  if (functionName === null) {
    const { operateHere } = await import("./operator/operate-here.ts");
    return operateHere(readSettings(process.env, PROJECT), request);
  }
  const { operateThere } = await import("./operator/operate-there.ts");
  return operateThere(functionName, request);
}

try {
  await operatorCommand(run).parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? EXIT.done : EXIT.usage;
  } else {
    // What the operator can mend is said in a sentence; anything else is ours and keeps its stack.
    const known = [SettingsError, DataDirError, PostgresError, OperatorFunctionError].some(
      (kind) => error instanceof kind,
    );
    process.stderr.write(`${known ? (error as Error).message : String((error as Error).stack ?? error)}\n`);
    process.exitCode = EXIT.failed;
  }
}
