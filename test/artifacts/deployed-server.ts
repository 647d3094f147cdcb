/** A deployment with its first workspace, key and environment: what the e2e drivers need of a server. */
import type { OperatorAnswer, OperatorCommand, OperatorRequest } from "../../shared/operator/commands.ts";
import { checkedFetch } from "../contract/answer-check.ts";
import type { Requests } from "../e2e/event-feed.ts";
import { type FakeModel, type FakeScript, startFakeModel } from "../fake-model/server.ts";
import { type Region, type RegionOptions, startRegion } from "./region/region.ts";

export interface DeployedServer extends Requests {
  readonly region: Region;
  readonly model: FakeModel;
  readonly url: string;
  readonly apiKey: string;
  readonly environmentId: string;
  readonly environmentKey: string;
  close(): Promise<void>;
}

export async function startDeployedServer(
  options: { readonly script?: FakeScript } & Partial<RegionOptions> = {},
): Promise<DeployedServer> {
  const { script, ...rest } = options;
  const model = await startFakeModel(script === undefined ? {} : { script });
  let region: Region;
  try {
    region = await startRegion({ modelUrl: model.url, ...rest });
  } catch (error) {
    await model.close();
    throw error;
  }
  const { url } = region;
  let apiKey = "";
  const request: Requests["request"] = (target, { json, ...init } = {}) => {
    const headers = new Headers({ "x-api-key": apiKey });
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    if (json !== undefined) headers.set("content-type", "application/json");
    const body = json === undefined ? {} : { method: "POST", body: JSON.stringify(json) };
    return checkedFetch(`${url}${target}`, { ...body, ...init, headers });
  };
  const close = async () => {
    await region.close();
    await model.close();
  };
  try {
    await operator(region, { command: "workspace.create", name: "first" });
    apiKey = await operator(region, { command: "key.create", name: "first" });
    const created = await request("/v1/environments", { json: { name: "machines" } });
    const { id: environmentId } = (await created.json()) as { id: string };
    const environmentKey = await operator(region, { command: "environment_key.create", name: "first" });
    // Each function's first invocation starts a process.
    return { region, model, url, apiKey, environmentId, environmentKey, patienceMs: 90_000, request, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A command as `npm run mango -- --function …` sends it; gives the secret that was made. */
async function operator({ functionNamed, lambda }: Region, request: OperatorCommand): Promise<string> {
  const answer = (await lambda.call(functionNamed("Operator").name, {
    actor: "test",
    request,
  } satisfies OperatorRequest)) as OperatorAnswer;
  if ("error" in answer) throw new Error(answer.error.message);
  return ("secret" in answer.result && answer.result.secret) || "";
}
