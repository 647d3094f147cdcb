import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { messagesModel } from "../shared/model/messages-model.ts";
import type { Model } from "../shared/model/model.ts";
import { ModelEnvironment, readEnvironment } from "./environment.ts";

/** A new key is in use everywhere after this time, without a deployment. */
const KEY_LIFE_MS = 5 * 60_000;

let configured: { readonly model: Model; readonly until: number } | undefined;

/** The model of this deployment, with the key that Secrets Manager holds. */
export async function configuredModel(): Promise<Model> {
  if (configured === undefined || configured.until < Date.now()) {
    const environment = readEnvironment(ModelEnvironment);
    const client = new SecretsManagerClient({});
    const secret = await client.send(new GetSecretValueCommand({ SecretId: environment.MANGO_MODEL_SECRET_ARN }));
    client.destroy();
    configured = {
      model: messagesModel({
        baseURL: environment.MANGO_MODEL_BASE_URL,
        auth: environment.MANGO_MODEL_AUTH,
        apiKey: secret.SecretString?.trim() ?? "",
        profile: environment.MANGO_MODEL_PROFILE,
      }),
      until: Date.now() + KEY_LIFE_MS,
    };
  }
  return configured.model;
}
