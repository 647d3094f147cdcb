-- The answers to POSTs that carried an Idempotency-Key, and what the lists filter by.

create table idempotency_keys (
  workspace_id text not null references workspaces (id),
  key text not null,
  -- SHA-256 of method, path and body: the same key with another request is a conflict.
  request_digest bytea not null,
  -- The first answer, JSON text; null only inside the transaction that makes it.
  response text,
  created_at timestamptz not null default now(),
  primary key (workspace_id, key)
);
create index idempotency_keys_created on idempotency_keys (created_at);

-- Why the session stands idle: lets an operator find the sessions that wait for a person.
alter table sessions add column stop_reason text
  check (stop_reason in ('end_turn', 'requires_action', 'retries_exhausted', 'refusal'));
create index sessions_agent_created on sessions (workspace_id, agent_id, created_at desc, id desc);
create index sessions_waiting on sessions (workspace_id, created_at desc, id desc) where stop_reason = 'requires_action';
create index sessions_environment on sessions (environment_id);

-- An environment may be deleted once no living session refers to it; a deleted session's row forgets it.
alter table sessions alter column environment_id drop not null;
alter table sessions drop constraint sessions_environment_id_fkey;
alter table sessions add constraint sessions_environment_id_fkey foreign key (environment_id) references environments (id) on delete set null;
