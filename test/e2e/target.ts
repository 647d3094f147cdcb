/**
 * What the black-box tests run against: the embedded edition, started for each file, or whatever `MANGO_URL` names. They
 * see HTTP and nothing else; the model's side of it is the test's own endpoint in both cases.
 */
import { mkdtemp } from "node:fs/promises";
import { createServer, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import { startBundledWorker } from "../../local/bundled-worker.ts";
import { checkedFetch } from "../contract/answer-check.ts";
import { eventually } from "../eventually.ts";
import { type FakeModel, startFakeModel } from "../fake-model/server.ts";
import { removeFolder } from "../remove-folder.ts";
import { type TestServer, UNCONFINED } from "../server.ts";
import type { Requests } from "./event-feed.ts";
import { type ScriptedServer, startScriptedServer } from "./scripted-model.ts";

const INTERRUPT = { type: "user.interrupt" };

/** A server as its clients know it. */
export type BlackBox = Pick<TestServer, "url" | "environmentId" | "client" | "request" | "workspaceRoot"> &
  Pick<Requests, "patienceMs">;

export type Target = Omit<ScriptedServer, "server"> & { readonly server: BlackBox };

export function startTarget(options: { readonly worker?: boolean } = {}): Promise<Target> {
  return process.env["MANGO_URL"] === undefined ? startScriptedServer(options) : startExternal(options);
}

async function startExternal({ worker = false }: { readonly worker?: boolean }): Promise<Target> {
  const [url, apiKey] = [setting("MANGO_URL").replace(/\/$/, ""), setting("MANGO_API_KEY")];
  const environmentId = setting("MANGO_ENVIRONMENT_ID");
  const endpoint = await startEndpoint(Number(setting("MANGO_TEST_MODEL_PORT")));
  const workspaceRoot = await mkdtemp(path.join(tmpdir(), "mango-workspaces-"));
  const running = worker
    ? startBundledWorker({
        url,
        environmentId,
        environmentKey: setting("MANGO_ENVIRONMENT_KEY"),
        workspaceRoot,
        tools: UNCONFINED,
        logFormat: "json",
        log: { debug() {}, info() {}, warn() {}, error() {} },
        silent: true,
      })
    : undefined;
  const providers: FakeModel[] = [];
  const sessions: string[] = [];
  const request: BlackBox["request"] = async (target, { json, key = apiKey, ...init } = {}) => {
    const headers = new Headers(init.headers);
    if (key !== null) headers.set("x-api-key", key);
    if (json !== undefined) headers.set("content-type", "application/json");
    const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
    const response = await checkedFetch(`${url}${target}`, { ...body, ...init, headers });
    if (target === "/v1/sessions" && response.status === 200) {
      sessions.push(((await response.clone().json()) as { id: string }).id);
    }
    return response;
  };
  return {
    server: {
      url,
      environmentId,
      workspaceRoot,
      patienceMs: 60_000,
      client: new Anthropic({ baseURL: url, apiKey, maxRetries: 0, fetch: checkedFetch }),
      request,
    },
    pointTo: endpoint.pointTo,
    async script(...replies) {
      const provider = await startFakeModel({ script: replies });
      providers.push(provider);
      endpoint.pointTo(provider.url);
      return provider;
    },
    async close() {
      // What a test left running would ask the next file's model. A target that is busy is asked again.
      for (const id of sessions) {
        await eventually(async () => {
          const { status } = await request(`/v1/sessions/${id}/events`, { json: { events: [INTERRUPT] } });
          if (status >= 500) throw new Error(`Session ${id} was not interrupted: ${status}.`);
        });
      }
      await running?.stop();
      await endpoint.close();
      await Promise.all(providers.map((provider) => provider.close()));
      await removeFolder(workspaceRoot);
    },
  };
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new Error(`${name} is not set: see docs/contributing.md, "Any target".`);
  }
  return value;
}

/** The one address that the target has for its model; it leads to whichever provider the test scripted last. */
async function startEndpoint(port: number) {
  let current: string | undefined;
  const server = createServer((request, response) => {
    const { headers, method, url } = request;
    if (current === undefined) {
      response.writeHead(503).end();
      return;
    }
    const asked = httpRequest(new URL(url ?? "/", current), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.on("error", () => response.destroy()).pipe(response);
    });
    asked.on("error", () => response.destroy());
    // Who hangs up here hangs up there.
    response.on("close", () => asked.destroy());
    request.pipe(asked);
  });
  // The target may be a container or another machine.
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "0.0.0.0", resolve));
  return {
    pointTo(url: string) {
      current = url;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
