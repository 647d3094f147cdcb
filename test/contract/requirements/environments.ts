/** Section 1.4. */
export const ENVIRONMENTS = [
  {
    id: "environments:create",
    section: "1.4, scope",
    says: "without a config it is self_hosted; every field comes back",
  },
  { id: "environments:create:cloud", section: "scope", says: "cloud is a 422 that says why" },
  {
    id: "environments:create:invalid",
    section: "1.4",
    says: "name is required; config, scope and metadata are checked",
  },
  { id: "environments:create:scope", section: "1.4", says: "scope organization or account is accepted and returned" },
  { id: "environments:get", section: "1.4", says: "an environment is read by id" },
  { id: "environments:not-found", section: "1.1", says: "an unknown one is a 404 environment_not_found" },
  {
    id: "environments:update",
    section: "1.4",
    says: "name and description change, what is left out stays, null clears the description",
  },
  { id: "environments:update:metadata", section: "1.4", says: "metadata merges; null or an empty string deletes" },
  {
    id: "environments:update:invalid-metadata",
    section: "1.1",
    says: "metadata over the limits is a 400 invalid_metadata",
  },
  {
    id: "environments:update:config-type",
    section: "1.4",
    says: "another config type is a 400 invalid_config_type_change",
  },
  {
    id: "environments:update:archived",
    section: "1.1",
    says: "an archived one cannot be updated: 400 environment_archived",
  },
  { id: "environments:list", section: "1.4", says: "listed in pages, archived ones only with include_archived" },
  { id: "environments:archive", section: "1.4", says: "archiving sets archived_at, once; existing sessions continue" },
  {
    id: "environments:archive:new-session",
    section: "1.1, 1.4",
    says: "no new session of an archived one: 400 environment_archived",
  },
  { id: "environments:delete", section: "1.4", says: "an unreferenced one is deleted, then it is a 404" },
  { id: "environments:delete:referenced", section: "1.4", says: "one that a session refers to is not deleted" },
] as const;
