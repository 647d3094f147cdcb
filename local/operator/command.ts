import { Command, InvalidArgumentError, Option } from "commander";
import type { OperatorCommand } from "../../shared/operator/commands.ts";

/** How the answer is shown, and where the command goes. */
export interface OperatorOptions {
  readonly json: boolean;
  /** Name or ARN of a deployed edition's operator function; null: a database. */
  readonly functionName: string | null;
}

export const EXIT = { done: 0, failed: 1, usage: 2 } as const;

const HELP = `
Where it works
  npm start is running      on that server's database
  nothing is running        on the data folder, whose database it starts for a moment
  MANGO_DATABASE_URL        on that PostgreSQL
  --function <name>         on a deployed edition: its operator function, which your AWS credentials must let you invoke

A first worker of your own
  npm run mango -- environment-key create "build host"
  MANGO_ENVIRONMENT_KEY=sk-mango-env-… npm run worker -- run --url http://127.0.0.1:8787 --environment-id env_…

A key is shown once, when it is made: only its digest is kept. What changes something leaves an audit record.
Exit codes: 0 done, 1 failed, 2 wrong usage.`;

/** The command line. `run` gets a right one; a wrong one throws commander's error. */
export function operatorCommand(run: (request: OperatorCommand, options: OperatorOptions) => Promise<void>): Command {
  const program = new Command("mango")
    .description("Operates Mango: workspaces, their API keys, and the keys of environments' workers.")
    .option("--json", "print JSON, for programs")
    .addOption(new Option("--function <name>", "a deployed edition's operator function").env("MANGO_OPERATOR_FUNCTION"))
    .showHelpAfterError("(add --help for what there is)")
    .exitOverride()
    .addHelpText("after", HELP);
  const does = (request: OperatorCommand) => {
    const { json, function: functionName } = program.opts<{ json?: true; function?: string }>();
    return run(request, { json: json ?? false, functionName: functionName ?? null });
  };

  const workspace = group(program, "workspace", "Tenants: each has its own agents, sessions, environments and keys.");
  leaf(workspace, "create", "Make a workspace.")
    .argument("<name>", "what people call it")
    .action((name: string) => does({ command: "workspace.create", name }));
  leaf(workspace, "list", "Show all workspaces.").action(() => does({ command: "workspace.list" }));

  const key = group(program, "key", "API keys: what applications send in X-Api-Key or Authorization.");
  leaf(key, "create", "Make an API key and show it, once.")
    .argument("<name>", "who will use it")
    .option("--workspace <id>", "may be left out while there is only one")
    .action((name: string, { workspace: id }: { workspace?: string }) =>
      does({ command: "key.create", workspace_id: id, name }),
    );
  leaf(key, "list", "Show a workspace's API keys.")
    .option("--workspace <id>", "may be left out while there is only one")
    .option("--revoked", "revoked ones too")
    .action(({ workspace: id, revoked }: { workspace?: string; revoked?: true }) =>
      does({ command: "key.list", workspace_id: id, include_revoked: revoked ?? false }),
    );
  leaf(key, "revoke", "End an API key: it opens nothing from the next request on.")
    .argument("<key-id>", "apikey_…")
    .action((id: string) => does({ command: "key.revoke", key_id: id }));

  const environmentKey = group(program, "environment-key", "Environment keys: what workers poll with.");
  leaf(environmentKey, "create", "Make an environment key and show it, once.")
    .argument("<name>", "which worker will use it")
    .option("--environment <id>", "may be left out while there is only one")
    .action((name: string, { environment: id }: { environment?: string }) =>
      does({ command: "environment_key.create", environment_id: id, name }),
    );
  leaf(environmentKey, "list", "Show an environment's keys.")
    .option("--environment <id>", "may be left out while there is only one")
    .option("--revoked", "revoked ones too")
    .action(({ environment: id, revoked }: { environment?: string; revoked?: true }) =>
      does({ command: "environment_key.list", environment_id: id, include_revoked: revoked ?? false }),
    );
  leaf(environmentKey, "revoke", "End an environment key. Sessions that its workers serve are finished.")
    .argument("<key-id>", "ekey_…")
    .action((id: string) => does({ command: "environment_key.revoke", key_id: id }));
  leaf(environmentKey, "rotate", "Give an environment key a new secret and show it, once.")
    .argument("<key-id>", "ekey_…")
    .option("--overlap <seconds>", "how long the old secret goes on to work, while workers get the new one", seconds, 0)
    .action((id: string, { overlap }: { overlap: number }) =>
      does({ command: "environment_key.rotate", key_id: id, overlap_seconds: overlap }),
    );
  return program;
}

function group(program: Command, name: string, description: string): Command {
  return program.command(name).description(description).exitOverride();
}

function leaf(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).exitOverride();
}

function seconds(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 86_400) {
    throw new InvalidArgumentError("Write whole seconds, at most 86400 (a day).");
  }
  return Number(text);
}
