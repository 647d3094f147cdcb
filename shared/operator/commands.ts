import { z } from "zod";
import { type EnvironmentKey, KeyName, Overlap } from "../contract/environment-keys.ts";
import type { ApiKey } from "../workspaces/api-keys.ts";
import type { Workspace } from "../workspaces/workspaces.ts";

/**
 * What an operator can ask for: the things that no API key may do (workspaces and their keys), and the keys of
 * environments, which a workspace's key may make over HTTP too. The same JSON goes to a database in this process or to
 * the function of a deployed edition.
 *
 * A workspace or an environment may be left out where there is only one.
 */
const WorkspaceId = z.string().min(1).optional();
const EnvironmentId = z.string().min(1).optional();
const KeyId = z.string().min(1);

export const OperatorCommand = z.discriminatedUnion("command", [
  z.strictObject({ command: z.literal("workspace.create"), name: KeyName }),
  z.strictObject({ command: z.literal("workspace.list") }),
  z.strictObject({ command: z.literal("key.create"), workspace_id: WorkspaceId, name: KeyName }),
  z.strictObject({ command: z.literal("key.list"), workspace_id: WorkspaceId, include_revoked: z.boolean() }),
  z.strictObject({ command: z.literal("key.revoke"), key_id: KeyId }),
  z.strictObject({ command: z.literal("environment_key.create"), environment_id: EnvironmentId, name: KeyName }),
  z.strictObject({
    command: z.literal("environment_key.list"),
    environment_id: EnvironmentId,
    include_revoked: z.boolean(),
  }),
  z.strictObject({ command: z.literal("environment_key.revoke"), key_id: KeyId }),
  z.strictObject({ command: z.literal("environment_key.rotate"), key_id: KeyId, overlap_seconds: Overlap }),
]);
export type OperatorCommand = z.infer<typeof OperatorCommand>;

/** What is sent: the command and who says to give it, for the audit record. */
export const OperatorRequest = z.strictObject({ actor: z.string().min(1).max(255), request: OperatorCommand });
export type OperatorRequest = z.infer<typeof OperatorRequest>;

/** What was made, changed or found. A secret is in the answer that makes it and nowhere else. */
export type OperatorThing = (Workspace | ApiKey | EnvironmentKey) & { readonly secret?: string };

/** Success, or what the operator can mend. Anything else is thrown. */
export type OperatorAnswer =
  | { readonly result: OperatorThing | readonly OperatorThing[] }
  | { readonly error: { readonly type: string; readonly message: string } };
