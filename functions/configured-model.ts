import { getSecret } from "@aws-lambda-powertools/parameters/secrets";
import { messagesModel } from "../shared/model/messages-model.ts";
import type { Model } from "../shared/model/model.ts";
import { ModelEnvironment, readEnvironment } from "./environment.ts";
import { measured, traceHeader } from "./observation.ts";

/** A new key is in use everywhere after this time, without a deployment. */
const KEY_LIFE_SECONDS = 300;

let configured: { readonly model: Model; readonly apiKey: string } | undefined;

/** The model of this deployment, with the key that Secrets Manager holds. */
export async function configuredModel(): Promise<Model> {
  const environment = readEnvironment(ModelEnvironment);
  const secret = await getSecret(environment.MANGO_MODEL_SECRET_ARN, { maxAge: KEY_LIFE_SECONDS });
  const apiKey = String(secret ?? "").trim();
  if (configured?.apiKey !== apiKey) {
    const model = messagesModel({
      baseURL: environment.MANGO_MODEL_BASE_URL,
      auth: environment.MANGO_MODEL_AUTH,
      apiKey,
      profile: environment.MANGO_MODEL_PROFILE,
      fetch: traced,
    });
    configured = { model: measured(model), apiKey };
  }
  return configured.model;
}

/** Lets whoever stands between us and the provider, or the provider itself, find the turn that a request belongs to. */
const traced: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers);
  const trace = traceHeader();
  if (trace !== undefined) {
    headers.set("x-amzn-trace-id", trace);
  }
  return fetch(input, { ...init, headers });
};
