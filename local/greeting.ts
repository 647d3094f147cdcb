import type { Embedded } from "./embedded.ts";
import type { Settings } from "./settings.ts";

/** What the terminal shows once the server is ready: where it is, and three lines to paste. */
export function greeting(settings: Settings, embedded: Pick<Embedded, "url" | "environmentId">): string {
  const model = settings.modelId ?? "offline";
  const bold = (text: string) => (process.stdout.isTTY ? `\u001b[1m${text}\u001b[22m` : text);
  const post = (path: string, body: string) =>
    `curl -sS "$MANGO_URL${path}" -H "x-api-key: $MANGO_API_KEY" -H "content-type: application/json" -d ${body}`;
  const id = (name: string, command: string) => `${name}=$(${command} | sed -E 's/^\\{"id":"([^"]+)".*/\\1/')`;
  return `
${bold("Mango is ready.")}

  address       ${embedded.url}
  key           ${settings.apiKey}
  environment   ${embedded.environmentId}${settings.worker ? "  (the bundled worker serves it)" : "  (no worker: MANGO_WORKER=off)"}
  model         ${settings.model === null ? "offline; set MANGO_MODEL_BASE_URL and MANGO_MODEL_API_KEY for a real one" : settings.model.baseUrl}

Create an agent, create a session, send a message:

  export MANGO_URL=${embedded.url} MANGO_API_KEY=${settings.apiKey}

  ${id("AGENT", post("/v1/agents", `'{"name":"Helper","model":"${model}","tools":[{"type":"agent_toolset_20260401"}]}'`))}
  ${id("SESSION", post("/v1/sessions", `"{\\"agent\\":\\"$AGENT\\",\\"environment_id\\":\\"${embedded.environmentId}\\"}"`))}
  ${post("/v1/sessions/$SESSION/events", `'{"events":[{"type":"user.message","content":[{"type":"text","text":"run \`uname -a\`"}]}]}'`)}

Then read what happened:

  curl -sS "$MANGO_URL/v1/sessions/$SESSION/events" -H "x-api-key: $MANGO_API_KEY"

npm run demo shows all of it; Ctrl-C ends everything.
`;
}
