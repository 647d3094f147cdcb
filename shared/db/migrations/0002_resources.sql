-- Agents, environments, sessions and threads: what the API calls resources.

create table agents (
  id text primary key,
  workspace_id text not null references workspaces (id),
  -- The newest version; older ones stay readable.
  version integer not null check (version >= 1),
  created_at timestamptz not null,
  updated_at timestamptz not null,
  archived_at timestamptz
);
create index agents_workspace_created on agents (workspace_id, created_at desc, id desc);

create table agent_versions (
  agent_id text not null references agents (id),
  version integer not null check (version >= 1),
  workspace_id text not null references workspaces (id),
  -- The definition with every default resolved, as the API shows it.
  definition text not null,
  created_at timestamptz not null,
  primary key (agent_id, version)
);
create trigger agent_versions_append_only before update or delete on agent_versions
  for each row execute function refuse_change();
create trigger agent_versions_no_truncate before truncate on agent_versions
  for each statement execute function refuse_change();

create table environments (
  id text primary key,
  workspace_id text not null references workspaces (id),
  name text not null,
  description text,
  -- As it was asked for; this server has one scope, the workspace.
  scope text,
  config text not null,
  metadata text not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  archived_at timestamptz
);
create index environments_workspace_created on environments (workspace_id, created_at desc, id desc);

-- What a worker of the environment presents. It may claim work; it opens no session.
create table environment_keys (
  id text primary key,
  workspace_id text not null references workspaces (id),
  environment_id text not null references environments (id),
  name text not null,
  digest bytea not null unique,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);

create table sessions (
  id text primary key,
  workspace_id text not null references workspaces (id),
  environment_id text not null references environments (id),
  agent_id text not null references agents (id),
  agent_version integer not null,
  title text,
  metadata text not null,
  -- The agent as resolved at creation, in the API's shape; an agent's later versions do not touch it.
  agent text not null,
  -- Who executes each tool under which policy, and the capability profile of the endpoint: pinned with the agent.
  runtime text not null,
  status text not null check (status in ('idle', 'running', 'rescheduling', 'terminated')),
  primary_thread_id text not null,
  -- The head of the ledger. Taken under this row's lock, which makes seq gapless in commit order.
  last_seq bigint not null default 0,
  last_hash bytea not null,
  last_processed_at timestamptz not null,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_read_input_tokens bigint not null default 0,
  cache_creation_input_tokens bigint not null default 0,
  web_search_requests bigint not null default 0,
  web_fetch_requests bigint not null default 0,
  active_ms bigint not null default 0,
  -- Since when the session runs; null while it does not.
  running_since timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  archived_at timestamptz,
  -- Set first by a deletion: from then on nothing may write.
  deleting_at timestamptz
);
create index sessions_workspace_created on sessions (workspace_id, created_at desc, id desc);

create table threads (
  id text primary key,
  session_id text not null references sessions (id),
  workspace_id text not null references workspaces (id),
  parent_thread_id text references threads (id),
  status text not null check (status in ('idle', 'running', 'rescheduling', 'terminated')),
  -- Counts the thread's turns; the next turn takes the next ordinal under the session row lock.
  turn_count integer not null default 0,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  archived_at timestamptz
);
create index threads_session on threads (session_id);
