import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { z } from "zod";
import { grantApplicationRole } from "../shared/db/application-role.ts";
import { migrate } from "../shared/db/migrate.ts";
import { MigrationEnvironment, readEnvironment } from "./environment.ts";
import { invocation } from "./invocation.ts";
import { log } from "./log.ts";

const Credentials = z.object({ username: z.string().min(1), password: z.string().min(1) });

/** What CDK's provider framework sends for a custom resource. */
interface MigrationRequest {
  readonly RequestType: "Create" | "Update" | "Delete";
}

/**
 * Brings the schema to the newest state before any function of the release is deployed, with credentials that no other
 * function has. The tables outlive the stack: a deletion changes nothing.
 */
export const handler = invocation(async ({ RequestType }: MigrationRequest) => {
  if (RequestType !== "Delete") {
    const environment = readEnvironment(MigrationEnvironment);
    const connectionString = await ownersConnection(environment);
    const ran = await migrate({ connectionString, log });
    await grantApplicationRole({ connectionString, role: environment.MANGO_DATABASE_USER });
    log.info("The schema is the newest.", { ran: ran.join(" ") });
  }
  return { PhysicalResourceId: "schema" };
});

async function ownersConnection(environment: z.output<typeof MigrationEnvironment>): Promise<string> {
  const client = new SecretsManagerClient({});
  const secret = await client.send(new GetSecretValueCommand({ SecretId: environment.MANGO_DATABASE_SECRET_ARN }));
  client.destroy();
  const { username, password } = Credentials.parse(JSON.parse(secret.SecretString ?? "null"));
  const url = new URL("postgresql://host");
  url.hostname = environment.MANGO_DATABASE_HOST;
  url.port = String(environment.MANGO_DATABASE_PORT);
  url.pathname = environment.MANGO_DATABASE_NAME;
  url.username = encodeURIComponent(username);
  url.password = encodeURIComponent(password);
  url.searchParams.set("sslmode", environment.MANGO_DATABASE_TLS === "on" ? "verify-full" : "disable");
  return url.href;
}
