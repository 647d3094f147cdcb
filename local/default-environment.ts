import { NotFound } from "../shared/contract/errors.ts";
import { derivedId } from "../shared/contract/ids.ts";
import type { Transaction } from "../shared/db/transaction.ts";
import { createEnvironment, getEnvironment } from "../shared/environments/environments.ts";

/** The workspace of the embedded edition: it has one operator. */
export const LOCAL_WORKSPACE = "wrkspc_local";

/** The environment of the bundled worker: the same id at every start, so that what was pasted yesterday works today. */
export const DEFAULT_ENVIRONMENT = derivedId("env", LOCAL_WORKSPACE, "default");

export async function ensureDefaultEnvironment(database: Transaction): Promise<string> {
  const [workspaceId, environmentId] = [LOCAL_WORKSPACE, DEFAULT_ENVIRONMENT];
  try {
    await getEnvironment(database, { workspaceId, environmentId });
  } catch (error) {
    if (!(error instanceof NotFound)) {
      throw error;
    }
    await createEnvironment(
      database,
      workspaceId,
      { name: "default", description: "Served by the worker that npm start runs." },
      environmentId,
    );
  }
  return environmentId;
}
