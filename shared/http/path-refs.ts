interface Scoped {
  readonly workspaceId: string;
}

/** The environment that a path names, in the workspace of whoever asks. */
export function environmentRef(principal: Scoped, params: { readonly environment_id: string }) {
  return { workspaceId: principal.workspaceId, environmentId: params.environment_id };
}

/** The work item that a path names. */
export function workRef(principal: Scoped, params: { readonly environment_id: string; readonly work_id: string }) {
  return { ...environmentRef(principal, params), workId: params.work_id };
}

/** The environment key that a path names. */
export function keyRef(principal: Scoped, params: { readonly environment_id: string; readonly key_id: string }) {
  return { ...environmentRef(principal, params), keyId: params.key_id };
}
