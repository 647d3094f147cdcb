import { copyFile, mkdir } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline/promises";
import { fileURLToPath } from "node:url";
import Anthropic from "@anthropic-ai/sdk";
import { Command } from "commander";
import { DEFAULT_ENVIRONMENT } from "./default-environment.ts";
import { readSettings, type Settings, SettingsError } from "./settings.ts";
import { Transcript } from "./transcript.ts";

const PROJECT = fileURLToPath(new URL("..", import.meta.url));
const TASK =
  "Read README.md and then run `wc -l README.md package.json`. What is this project, and how long are the two files?";

type Sessions = Anthropic["beta"]["sessions"];
type StreamEvent = Awaited<ReturnType<Sessions["events"]["stream"]>> extends AsyncIterable<infer Event> ? Event : never;

/**
 * `npm run demo`: the main job against the running server, as a terminal transcript. An agent reads a real file and
 * runs a real command through the worker; the command waits for approval. It is an ordinary client: the official SDK,
 * pointed at our URL.
 */
async function demo(settings: Settings, options: { readonly yes: boolean }): Promise<void> {
  const url = `http://${settings.host}:${settings.port}`;
  const client = new Anthropic({ baseURL: url, apiKey: settings.apiKey, maxRetries: 0 });
  const transcript = new Transcript(process.stdout);
  if (
    !(await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    ))
  ) {
    throw new SettingsError(`No server answers at ${url}. Run npm start in another terminal, then this again.`);
  }

  const model = settings.modelId ?? "offline";
  const agent = await client.beta.agents.create({
    name: "Demo",
    model,
    system: "You help with the files in your workspace. Use your tools, and answer briefly.",
    tools: [{ type: "agent_toolset_20260401", configs: [{ name: "bash", permission_policy: { type: "always_ask" } }] }],
  });
  const session = await client.beta.sessions.create({
    agent: agent.id,
    environment_id: DEFAULT_ENVIRONMENT,
    title: "Demo",
  });
  // The worker gives each session a folder of its own; what the agent shall see is put there by whoever runs the worker.
  const workspace = path.join(settings.workspaceRoot, session.id);
  await mkdir(workspace, { recursive: true, mode: 0o700 });
  for (const file of ["README.md", "package.json"]) {
    await copyFile(path.join(PROJECT, file), path.join(workspace, file));
  }
  transcript.opening({ url, agent: `${agent.id} (${model})`, session: session.id, workspace });

  const stream = await client.beta.sessions.events.stream(session.id, { event_deltas: ["agent.message"] });
  transcript.user(TASK);
  await client.beta.sessions.events.send(session.id, {
    events: [{ type: "user.message", content: [{ type: "text", text: TASK }] }],
  });
  const asked: StreamEvent[] = [];
  for await (const event of stream) {
    transcript.show(event);
    if (event.type === "agent.tool_use" && event.evaluated_permission === "ask") {
      asked.push(event);
    }
    if (event.type === "session.status_idle" && event.stop_reason.type === "requires_action") {
      await answer(client, session.id, asked.splice(0), options.yes, transcript);
    } else if (event.type === "session.status_idle") {
      transcript.closing(event.stop_reason.type);
      return;
    }
  }
}

async function answer(
  client: Anthropic,
  sessionId: string,
  asked: readonly StreamEvent[],
  yes: boolean,
  transcript: Transcript,
): Promise<void> {
  for (const event of asked) {
    if (event.type === "agent.tool_use") {
      const allowed = yes || (await askPerson());
      transcript.approval(allowed, yes);
      await client.beta.sessions.events.send(sessionId, {
        events: [{ type: "user.tool_confirmation", tool_use_id: event.id, result: allowed ? "allow" : "deny" }],
      });
    }
  }
}

async function askPerson(): Promise<boolean> {
  const prompt = createInterface({ input: process.stdin, output: process.stdout });
  const reply = await prompt.question("  Allow it? [Y/n] ");
  prompt.close();
  return !/^n/i.test(reply.trim());
}

const program = new Command("npm run demo --")
  .description("Plays one job against the running server: a file is read, a command waits for approval and runs.")
  .option("--yes", "approve without asking", false)
  .addHelpText(
    "after",
    "\nA real model: set MANGO_MODEL_BASE_URL and MANGO_MODEL_API_KEY for npm start, and MANGO_MODEL_ID here.",
  );
program.parse();

demo(readSettings(process.env, PROJECT), program.opts<{ yes: boolean }>()).then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
