import { createPool } from "../shared/db/pool.ts";
import { createEnvironment } from "../shared/environments/environments.ts";
import { addEnvironmentKey, ensureWorkspace, setApiKey } from "../shared/workspaces/keys.ts";

const WORKSPACE = "wrkspc_emulated";

/** The first workspace of a deployment, with a key and an environment for a worker; gives the environment's id. */
export async function seed(
  connectionString: string,
  secrets: { readonly apiKey: string; readonly environmentKey: string },
): Promise<string> {
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const database = createPool({ connectionString, max: 1, log });
  try {
    await ensureWorkspace(database, { id: WORKSPACE, name: "emulated" });
    await setApiKey(database, { workspaceId: WORKSPACE, name: "tests", secret: secrets.apiKey });
    const environment = await createEnvironment(database, WORKSPACE, { name: "tests" });
    await addEnvironmentKey(database, {
      workspaceId: WORKSPACE,
      environmentId: environment.id,
      name: "tests",
      secret: secrets.environmentKey,
    });
    return environment.id;
  } finally {
    await database.end();
  }
}
