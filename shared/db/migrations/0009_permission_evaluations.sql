-- What the evaluator said of calls under the policy auto, and what it cost.
create table permission_evaluations (
  id text primary key,
  workspace_id text not null references workspaces (id),
  session_id text not null references sessions (id),
  turn_id text not null references turns (id),
  step_id text not null references tool_steps (id),
  -- receipt: the one that counts, the first that was saved. surplus: a second evaluation of the same call, or one that
  -- came after its turn was taken away; only its cost counts.
  standing text not null check (standing in ('receipt', 'surplus')),
  segment integer not null,
  input_digest bytea not null,
  -- The recipe of the request, as in context_snapshots; the digest is null when the model was not asked.
  runtime_revision integer not null,
  through_turn integer not null,
  through_entry integer not null,
  request_digest bytea,
  evaluator_version text not null,
  provider text not null,
  model text not null,
  permission text not null check (permission in ('allow', 'ask', 'deny')),
  reason_code text check ((permission = 'allow') = (reason_code is null)),
  -- Why a person is asked although the model did not say so; never public.
  fallback text,
  stop_reason text,
  provider_request_id text,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_read_input_tokens bigint not null default 0,
  cache_creation_input_tokens bigint not null default 0,
  created_at timestamptz not null
);
create unique index permission_receipts on permission_evaluations (step_id) where standing = 'receipt';
create index permission_evaluations_session on permission_evaluations (session_id);
create index permission_evaluations_step on permission_evaluations (step_id);
create index permission_evaluations_turn on permission_evaluations (turn_id);
create trigger permission_evaluations_no_update before update on permission_evaluations
  for each row execute function refuse_change();
create trigger permission_evaluations_no_delete before delete on permission_evaluations
  for each row execute function refuse_delete_while_living();
create trigger permission_evaluations_no_truncate before truncate on permission_evaluations
  for each statement execute function refuse_change();
