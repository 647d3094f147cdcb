import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import { Signer } from "@aws-sdk/rds-signer";
import pg from "pg";
import { z } from "zod";
import { grantApplicationRole } from "../shared/db/application-role.ts";
import { migrate } from "../shared/db/migrate.ts";
import { isDatabaseError } from "../shared/db/transaction.ts";
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

/**
 * The owner's way in: its password, or a signed token where RDS takes no password of it.
 *
 * Since PostgreSQL 16 whoever makes a role is a member of it, so that the owner, who made the functions' role, is in
 * `rds_iam` through it; and a member of `rds_iam` may come with a token only. Whether RDS counts this nested membership
 * is not known for sure (movetokube/postgres-operator#315 was locked out by it): either way one of the two is taken.
 * The first migration comes before that, with the password.
 */
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
  if (await letsIn(url.href)) {
    return url.href;
  }
  log.info("The database takes no password of its owner; a token is tried.");
  const { MANGO_DATABASE_HOST: hostname, MANGO_DATABASE_PORT: port, AWS_REGION: region } = environment;
  url.password = encodeURIComponent(await new Signer({ hostname, port, username, region }).getAuthToken());
  return url.href;
}

/** SQLSTATE of a login that was refused, and of one whose password was. */
const REFUSED = ["28000", "28P01"];

async function letsIn(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString });
  client.on("error", () => {});
  try {
    await client.connect();
    return true;
  } catch (error) {
    if (isDatabaseError(error) && REFUSED.includes(error.code ?? "")) {
      return false;
    }
    throw error;
  } finally {
    await client.end().catch(() => {});
  }
}
