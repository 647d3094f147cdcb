/** A deployment with its first workspace, key and environment: what the e2e drivers need of a server. */
import { newSecret } from "../../shared/contract/ids.ts";
import { addEnvironmentKey, ensureWorkspace, setApiKey } from "../../shared/workspaces/keys.ts";
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

const WORKSPACE = "wrkspc_first";

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
  const [apiKey, environmentKey] = [newSecret("sk-mango-api"), newSecret("sk-mango-env")];
  const { administrator, url } = region;
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
    await ensureWorkspace(administrator, { id: WORKSPACE, name: "first" });
    await setApiKey(administrator, { workspaceId: WORKSPACE, name: "first", secret: apiKey });
    const created = await request("/v1/environments", { json: { name: "machines" } });
    const { id: environmentId } = (await created.json()) as { id: string };
    await addEnvironmentKey(administrator, {
      workspaceId: WORKSPACE,
      environmentId,
      name: "first",
      secret: environmentKey,
    });
    // Each function's first invocation starts a process.
    return { region, model, url, apiKey, environmentId, environmentKey, patienceMs: 90_000, request, close };
  } catch (error) {
    await close();
    throw error;
  }
}
